import { Button, Tooltip, type ButtonProps } from "@patternfly/react-core";
import type { Allowed } from "../api/types";
import { whyNot } from "../session/rights";

type ActProps = Pick<ButtonProps, "variant" | "isInline" | "isLoading" | "aria-label"> & {
  allowed: Allowed;
  onClick: () => void;
  children: string;
};

/** A button that is off with the reason while its act is not open; it keeps the focus, so the reason can be read. */
export function Act({ allowed, onClick, children, ...look }: ActProps) {
  const button = (
    <Button {...look} isAriaDisabled={!allowed.allowed} onClick={() => allowed.allowed && onClick()}>
      {children}
    </Button>
  );
  return allowed.allowed ? button : <Tooltip content={whyNot(allowed)}>{button}</Tooltip>;
}
