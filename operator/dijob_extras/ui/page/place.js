// The places of the page: the list, one job, and the totals. The URL's fragment names them.

// No namespace can have this name.
export const TOTALS = "-totals";
let list = "";

/** Parse the URL's fragment: empty or NAMESPACE for the list, or NAMESPACE/NAME with an optional /log/RANK. */
export function place() {
  const [namespace, name, log, rank] = location.hash.replace(/^#\/?/, "").split("/");
  if (namespace === TOTALS) return { totals: true, path: "/api/totals" };
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
