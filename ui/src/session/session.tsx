import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, lazy, Suspense, useContext, useEffect, type ReactNode } from "react";
import { ApiProblem, call, get, setCsrf } from "../api/client";
import type { Session } from "../api/types";

const SignIn = lazy(() => import("./SignIn"));

const Current = createContext<Session | null>(null);

/** The signed-in person's session; only inside SignedIn. */
export function useSession(): Session {
  const session = useContext(Current);
  if (!session) throw new Error("useSession is for pages behind the sign-in");
  return session;
}

/** Shows the sign-in until somebody is signed in, and renews the session while the page is open. */
export function SignedIn({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const { data, isPending, error } = useQuery({
    queryKey: ["session"],
    queryFn: () =>
      get<Session>("/session").catch((problem: unknown) => {
        if (problem instanceof ApiProblem && problem.problem.status === 401) return null;
        throw problem;
      }),
    retry: false,
    refetchInterval: 60_000,
  });
  if (data) setCsrf(data.csrf);

  useEffect(() => {
    if (!data) return;
    const wait = Math.max(1000, new Date(data.renew_after).getTime() - Date.now());
    const timer = setTimeout(() => {
      void call<Session>("/session/renew", { method: "POST" })
        .then(({ data: renewed }) => queries.setQueryData(["session"], renewed))
        .catch(() => queries.invalidateQueries({ queryKey: ["session"] }));
    }, Math.min(wait, 2_000_000_000));
    return () => clearTimeout(timer);
  }, [data, queries]);

  if (isPending) return null;
  if (!data) {
    return (
      <Suspense fallback={null}>
        <SignIn
          problem={error}
          onSignedIn={(session) => {
            setCsrf(session.csrf);
            queries.setQueryData(["session"], session);
          }}
        />
      </Suspense>
    );
  }
  return <Current.Provider value={data}>{children}</Current.Provider>;
}
