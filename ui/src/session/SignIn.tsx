import {
  ActionGroup,
  Alert,
  Button,
  Card,
  CardBody,
  CardTitle,
  Form,
  FormGroup,
  FormHelperText,
  FormSelect,
  FormSelectOption,
  HelperText,
  HelperTextItem,
  TextInput,
} from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { call, get } from "../api/client";
import type { Realms, SecondFactor, Session } from "../api/types";
import { ProblemAlert } from "../parts/ProblemAlert";

interface Props {
  problem: unknown;
  onSignedIn: (session: Session) => void;
}

/** Sign-in with a Proxmox VE account (or the local administrator), in one or two steps. */
export default function SignIn({ problem, onSignedIn }: Props) {
  const [site, setSite] = useState<string>("");
  const realms = useQuery({
    queryKey: ["realms", site],
    queryFn: () => get<Realms>(`/realms${site ? `?site=${encodeURIComponent(site)}` : ""}`),
    retry: false,
  });
  const [realm, setRealm] = useState("");
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [factor, setFactor] = useState<SecondFactor | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);

  const offered = realms.data?.realms ?? [];
  const chosen = offered.find((r) => r.realm === realm) ?? offered.find((r) => r.default) ?? offered[0];

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const { status, data } = await call<Session | { second_factor: SecondFactor }>("/session", {
        method: "POST",
        body: { site: realms.data?.site ?? null, realm: chosen?.realm ?? "local", username, password },
      });
      if (status === 202) setFactor((data as { second_factor: SecondFactor }).second_factor);
      else onSignedIn(data as Session);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  }

  return (
    <main className="sign-in">
      <Card>
        <CardTitle component="h1">
          <img src="/icon.svg" alt="" width="24" height="24" /> Sign in to Trilithon
        </CardTitle>
        <CardBody>
          <ProblemAlert error={error ?? problem ?? realms.error} />
          {realms.data?.unreachable && <Alert isInline variant="warning" className="after" title={realms.data.unreachable} />}
          {factor ? (
            <SecondFactorForm
              factor={factor}
              onSignedIn={onSignedIn}
              onFailed={setError}
              onBack={() => {
                setFactor(null);
                setPassword("");
              }}
            />
          ) : (
            <Form onSubmit={submit}>
              {(realms.data?.sites.length ?? 0) > 1 && (
                <FormGroup label="Site" fieldId="site">
                  <FormSelect id="site" value={realms.data?.site ?? ""} onChange={(_, value) => setSite(value)}>
                    {realms.data?.sites.map((name) => <FormSelectOption key={name} value={name} label={name} />)}
                  </FormSelect>
                </FormGroup>
              )}
              <FormGroup label="User name" fieldId="username" isRequired>
                <TextInput
                  id="username"
                  autoComplete="username"
                  autoFocus
                  isRequired
                  value={username}
                  onChange={(_, value) => setUsername(value)}
                />
              </FormGroup>
              <FormGroup label="Password" fieldId="password" isRequired>
                <TextInput
                  id="password"
                  type="password"
                  autoComplete="current-password"
                  isRequired
                  value={password}
                  onChange={(_, value) => setPassword(value)}
                />
              </FormGroup>
              <FormGroup label="Realm" fieldId="realm">
                <FormSelect id="realm" value={chosen?.realm ?? ""} onChange={(_, value) => setRealm(value)}>
                  {offered.map((r) => (
                    <FormSelectOption
                      key={r.realm}
                      value={r.realm}
                      label={`${r.comment || r.realm}${r.supported ? "" : " (not supported yet)"}`}
                    />
                  ))}
                </FormSelect>
                {chosen && !chosen.supported && (
                  <FormHelperText>
                    <HelperText>
                      <HelperTextItem variant="warning">{chosen.remedy}</HelperTextItem>
                    </HelperText>
                  </FormHelperText>
                )}
              </FormGroup>
              <ActionGroup>
                <Button type="submit" isLoading={busy} isDisabled={busy || realms.isPending || !username || !password}>
                  Sign in
                </Button>
              </ActionGroup>
            </Form>
          )}
        </CardBody>
      </Card>
    </main>
  );
}

interface FactorProps {
  factor: SecondFactor;
  onSignedIn: (session: Session) => void;
  onFailed: (error: unknown) => void;
  onBack: () => void;
}

function SecondFactorForm({ factor, onSignedIn, onFailed, onBack }: FactorProps) {
  const [kind, setKind] = useState(factor.kinds[0] ?? "totp");
  const [code, setCode] = useState("");
  const [busy, setBusy] = useState(false);

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    onFailed(null);
    try {
      const { data } = await call<Session>("/session/second-factor", {
        method: "POST",
        body: { challenge_id: factor.challenge_id, kind, code },
      });
      onSignedIn(data);
    } catch (failure) {
      onFailed(failure);
      setCode("");
    } finally {
      setBusy(false);
    }
  }

  if (factor.kinds.length === 0) {
    return (
      <p>
        This account asks for {(factor.other_kinds ?? []).join(", ")}, which Trilithon does not support yet. Add a time-based code
        (TOTP) to the account in Proxmox VE.
      </p>
    );
  }
  return (
    <Form onSubmit={submit}>
      {factor.kinds.length > 1 && (
        <FormGroup label="Second factor" fieldId="kind">
          <FormSelect id="kind" value={kind} onChange={(_, value) => setKind(value)}>
            {factor.kinds.map((name) => <FormSelectOption key={name} value={name} label={name} />)}
          </FormSelect>
        </FormGroup>
      )}
      <FormGroup label={kind === "totp" ? "Code of your authenticator" : "Recovery code"} fieldId="code" isRequired>
        <TextInput
          id="code"
          autoFocus
          autoComplete="one-time-code"
          inputMode={kind === "totp" ? "numeric" : "text"}
          value={code}
          onChange={(_, value) => setCode(value)}
        />
      </FormGroup>
      <ActionGroup>
        <Button type="submit" isLoading={busy} isDisabled={busy || !code}>
          Confirm
        </Button>
        <Button variant="link" onClick={onBack}>
          Back
        </Button>
      </ActionGroup>
    </Form>
  );
}
