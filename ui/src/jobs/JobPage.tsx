import { PageSection } from "@patternfly/react-core";
import { useParams } from "react-router-dom";
import { JobDetails } from "./JobDetails";

export default function JobPage() {
  const { id = "" } = useParams();
  return (
    <PageSection isFilled>
      <JobDetails id={id} heading="h1" />
    </PageSection>
  );
}
