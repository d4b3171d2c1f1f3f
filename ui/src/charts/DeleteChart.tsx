import { call } from "../api/client";
import type { Chart } from "../api/types";
import { DeleteByName } from "../parts/DeleteByName";

interface Props {
  chart: Chart;
  onClose: () => void;
  onDeleted: () => void;
}

/** Says how the chart would come back. */
export default function DeleteChart({ chart, onClose, onDeleted }: Props) {
  async function remove() {
    await call(`/charts/${encodeURIComponent(chart.name)}/${encodeURIComponent(chart.version)}`, { method: "DELETE" });
    onDeleted();
  }

  const back =
    chart.source === "upload"
      ? "It was uploaded: to have it again, somebody must bring the file."
      : `It can be pulled again from ${chart.source}.`;
  return (
    <DeleteByName name={chart.name} called={`${chart.name} ${chart.version}`} remove={remove} onClose={onClose}>
      <p className="after">{`${Math.ceil(chart.size / 1024)} KiB leave the cache; no cluster uses them. ${back}`}</p>
    </DeleteByName>
  );
}
