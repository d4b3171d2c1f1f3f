import { lazy, Suspense } from "react";
import { BrowserRouter, Navigate, Route, Routes } from "react-router-dom";
import { LiveChanges } from "./api/events";
import { ClusterList } from "./clusters/ClusterList";
import { NotFound } from "./shell/NotFound";
import { Shell } from "./shell/Shell";
import { Loading } from "./parts/Loading";
import { SignedIn } from "./session/session";

const ClusterPage = lazy(() => import("./clusters/ClusterPage"));
const CreateCluster = lazy(() => import("./clusters/CreateCluster"));
const ChartList = lazy(() => import("./charts/ChartList"));
const JobList = lazy(() => import("./jobs/JobList"));
const JobPage = lazy(() => import("./jobs/JobPage"));

export function App() {
  return (
    <SignedIn>
      <LiveChanges>
        <BrowserRouter>
          <Shell>
            <Suspense fallback={<Loading />}>
              <Routes>
                <Route path="/" element={<Navigate to="/clusters" replace />} />
                <Route path="/clusters" element={<ClusterList />} />
                <Route path="/clusters/create" element={<CreateCluster />} />
                <Route path="/clusters/:namespace/:name" element={<Navigate to="summary" replace />} />
                <Route path="/clusters/:namespace/:name/:view" element={<ClusterPage />} />
                <Route path="/jobs" element={<JobList />} />
                <Route path="/jobs/:id" element={<JobPage />} />
                <Route path="/charts" element={<ChartList />} />
                <Route path="*" element={<NotFound />} />
              </Routes>
            </Suspense>
          </Shell>
        </BrowserRouter>
      </LiveChanges>
    </SignedIn>
  );
}
