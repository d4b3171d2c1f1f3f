// The API's shapes by short names; all of them are generated from the OpenAPI document.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Accepted = Schemas["Accepted"];
export type Allowed = Schemas["Allowed"];
export type Change = Schemas["Change"];
export type Chart = Schemas["Chart"];
export type ChartList = Schemas["ChartList"];
export type Cluster = Schemas["Cluster"];
export type ClusterRow = Schemas["ClusterRow"];
export type Condition = Schemas["Condition"];
export type Decision = Schemas["Decision"];
export type Etcd = Schemas["Etcd"];
export type Info = Schemas["Info"];
export type Job = Schemas["Job"];
export type JobSummary = Schemas["JobSummary"];
export type Log = Schemas["Log"];
export type LogLine = Schemas["LogLine"];
export type Machine = Schemas["Machine"];
export type Machines = Schemas["Machines"];
export type Preview = Schemas["Preview"];
export type Problem = Schemas["Problem"];
export type Progress = Schemas["Progress"];
export type Realms = Schemas["Realms"];
export type SecondFactor = Schemas["SecondFactorChallenge"];
export type Session = Schemas["Session"];
export type Step = Schemas["Step"];
export type TemplateList = Schemas["TemplateList"];
export type Violation = Schemas["Violation"];
export type WantedChart = Schemas["WantedChart"];

export interface Page<Row> {
  items: Row[];
  total: number;
  unfiltered_total?: number | null;
  offset: number;
  limit: number;
  as_of: string;
}
