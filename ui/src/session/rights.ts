import type { Allowed } from "../api/types";

/** Why something is off, in words: the missing privilege by name, or the thing's state. */
export function whyNot(allowed: Allowed): string {
  if (allowed.missing) return `Your account needs the privilege ${allowed.missing.privilege} on ${allowed.missing.path} in Proxmox VE.`;
  return allowed.reason || "It is not possible now.";
}
