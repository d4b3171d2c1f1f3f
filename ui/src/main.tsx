import "@patternfly/react-core/dist/styles/base.css";
import "./trilithon.css";
import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiProblem } from "./api/client";
import { App } from "./app";

const queries: QueryClient = new QueryClient({
  defaultOptions: {
    queries: { retry: (count, error) => count < 1 && error instanceof ApiProblem && error.passing, staleTime: 2_000 },
  },
  queryCache: new QueryCache({
    // A session that has ended shows the sign-in, wherever it is noticed.
    onError: (error, query) => {
      if (error instanceof ApiProblem && error.problem.status === 401 && query.queryKey[0] !== "session") {
        void queries.invalidateQueries({ queryKey: ["session"] });
      }
    },
  }),
});

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
