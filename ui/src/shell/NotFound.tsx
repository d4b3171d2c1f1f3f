import { Button, PageSection } from "@patternfly/react-core";
import { useNavigate } from "react-router-dom";
import { Nothing } from "../parts/Nothing";

/** One answer for a wrong address and for a thing one may not see: they must not be told apart. */
export function NotFound({ what = "This page" }: { what?: string }) {
  const navigate = useNavigate();
  return (
    <PageSection>
      <Nothing title={`${what} was not found`} why="It does not exist, or your account may not see it.">
        <Button onClick={() => navigate("/clusters")}>Go to the clusters</Button>
      </Nothing>
    </PageSection>
  );
}
