// The places of the page: the list, one job, the totals, and the history. The URL's fragment names them.

// No namespace can have these names.
export const TOTALS = "-totals";
export const PAST = "-history";
let list = "";

/** Parse the URL's fragment: empty or NAMESPACE for the list, or NAMESPACE/NAME with an optional /log/RANK. */
export function place() {
  const [namespace, name, log, rank] = location.hash.replace(/^#\/?/, "").split("/");
  if (namespace === TOTALS) return { totals: true, path: "/api/totals" };
  // PAST for the history, and PAST/NAMESPACE/NAME/UID for one of its jobs.
  if (namespace === PAST) {
    return { past: true, namespace: name, name: log, path: log ? `/api/history/${name}/${log}/${rank}` : "/api/history" };
  }
  if (!name) {
    list = namespace;
    return { namespace, path: namespace ? `/api/jobs/${namespace}` : "/api/jobs" };
  }
  return { namespace, name, path: `/api/jobs/${namespace}/${name}`, rank: log === "log" && rank ? rank : null };
}

/** Return the link to the list that the user saw last. */
export function listLink() {
  return `#/${list}`;
}
