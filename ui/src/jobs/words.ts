/** Jobs in words for people; the names on the wire are the workflow types. */
export const JOB_WORDS: Record<string, string> = {
  CreateCluster: "Create cluster",
  DeleteCluster: "Delete cluster",
  SelfTest: "Test site",
};
