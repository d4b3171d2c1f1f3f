import { Button } from "@patternfly/react-core";
import { useState } from "react";
import { Nothing } from "../parts/Nothing";

const COMMAND = `trilithon site add NAME --endpoint https://pve1.example.com:8006 --fingerprint SHA256 \\
  --token-id 'trilithon@pve!platform' --bridge vmbr0 --storage STORAGE --iso-storage local`;

/** What the local administrator does instead of seeing clusters: add a site, from the command line. */
export default function LocalAdministrator() {
  const [copied, setCopied] = useState("");
  const copy = () =>
    // Browsers give the clipboard only to pages that came by HTTPS or from this machine.
    Promise.resolve(navigator.clipboard?.writeText(COMMAND) ?? Promise.reject(new Error("no clipboard"))).then(
      () => setCopied("Copied."),
      () => setCopied("This browser does not let the page copy; select the command instead."),
    );
  return (
    <Nothing
      title="No clusters for this account"
      why={
        <>
          <p className="after">
            The local administrator sets up sites; clusters are seen and made with an account of Proxmox VE. A site is added
            from the command line. It asks for the token's secret and then says what is missing.
          </p>
          <pre className="command" tabIndex={0} aria-label="Command that adds a site">
            {COMMAND}
          </pre>
          <p className="muted" role="status">
            {copied}
          </p>
        </>
      }
    >
      <Button variant="secondary" onClick={() => void copy()}>
        Copy the command
      </Button>
    </Nothing>
  );
}
