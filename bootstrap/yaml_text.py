"""The one YAML emitter of the boot data: safe, stable, and readable where people look at it."""

from collections.abc import Mapping, Sequence

import yaml

try:
    from yaml import CSafeDumper as _Dumper
except ImportError:  # PyYAML was built without libyaml: the same text, several times as slowly
    from yaml import SafeDumper as _Dumper  # type: ignore[assignment]


class _Emitter(_Dumper):
    """PyYAML's safe emitter without anchors, and with block text for what has several lines."""

    def ignore_aliases(self, data: object) -> bool:
        return True


class Quoted(str):
    """A text that is always written in double quotes.

    Readers differ in what reads as a number: a MAC of digits alone is one to some, `12e34` to others.
    """


def _text(emitter: _Emitter, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return emitter.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _quoted(emitter: _Emitter, text: Quoted) -> yaml.ScalarNode:
    return emitter.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')


_Emitter.add_representer(str, _text)
_Emitter.add_representer(Quoted, _quoted)


def yaml_text(document: Mapping[str, object] | Sequence[object]) -> str:
    """Writes one document. Keys stay in the given order; strings that would read as something else are quoted."""
    return yaml.dump(document, Dumper=_Emitter, sort_keys=False, default_flow_style=False, width=1000)


def yaml_texts(*documents: Mapping[str, object]) -> str:
    """Writes several documents into one file (Kubernetes manifests)."""
    return "---\n".join(yaml_text(document) for document in documents)
