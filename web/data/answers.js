// Answers that the sidecar computes on request: fetched one at a time, and again when their data has changed.
import { get } from "./api.js";
import { store } from "./store.js";

/** The same question is asked again at most this often, in milliseconds: training runs on the same machine. */
const AGAIN_MS = 2000;

/**
 * @param {string} path of the API
 * @param {() => void} changed called when an answer has come
 */
export function answers(path, changed) {
  /** @type {{asked: string, version: string, body: any, why: string|null, at: number}} */
  let held = { asked: "", version: "", body: null, why: null, at: -Infinity };
  let fetching = false;
  let waiting = 0;

  /**
   * The newest answer to the question; that of an earlier version until the new one has come, also where the sidecar does
   * not answer. A new snapshot of the sidecar has it asked again.
   * @param {Record<string, string|null>} query
   * @param {string} version of the data behind the answer
   * @returns {{body: any, why: string|null}}
   */
  return function answer(query, version) {
    const asked = JSON.stringify(query);
    const same = held.asked === asked;
    const now = `${store.snapshot} ${version}`;
    if (!fetching && !(same && held.version === now)) {
      const early = same ? held.at + AGAIN_MS - performance.now() : 0;
      if (early > 0) {
        clearTimeout(waiting);
        waiting = setTimeout(changed, early);
      } else {
        fetching = true;
        get(path, query)
          .then((body) => ({ body, why: null }),
            (error) => ({ body: error.code === 0 && held.asked === asked ? held.body : null, why: error.message }))
          .then(({ body, why }) => {
            fetching = false;
            held = { asked, version: now, body, why, at: performance.now() };
            changed();
          });
      }
    }
    return same ? held : { body: null, why: null };
  };
}
