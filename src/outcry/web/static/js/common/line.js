/** The connection to the service: one EventSource, reopened after a failure from the last event on.
 *
 * A change of symbols starts a new stream; a broken stream resumes. A failure is reported after the first failed
 * attempt, recovery with the first event. A stream without events for a minute is reopened, because scripts cannot see
 * keep-alive comments and so cannot distinguish a lost connection from a quiet market.
 */

const NAMES = ["snapshot", "levels", "quote", "alert", "state"];
const SHORTEST_MS = 500;
const LONGEST_MS = 20_000;
const SILENT_MS = 60_000;

/** `known`: has the received `id` and `symbols`. `told`: called with {name, data, id, symbols}. */
export class Line {
  symbols = undefined;
  #known;
  #told;
  #source = null;
  #timer = 0;
  #pause = SHORTEST_MS;
  #heardAt = Date.now();
  #lost = false;

  constructor(known, told) {
    [this.#known, this.#told] = [known, told];
    addEventListener("offline", () => this.#source && this.#failed());
    addEventListener("online", () => this.#lost && this.symbols !== undefined && this.#again());
  }

  /** Receive events of these symbols (null: all), from now on or from the last event of the previous connection. */
  want(symbols) {
    if (this.#source && same(symbols, this.symbols)) return;
    this.#drop();
    this.symbols = symbols;
    if (symbols === null || symbols.size) this.#open();
  }

  /** Close the connection. */
  close() {
    this.#drop();
    this.symbols = undefined;
  }

  #drop() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  #again() {
    this.#drop();
    this.#open();
  }

  #watch() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#again(), SILENT_MS);
  }

  #open() {
    const query = new URLSearchParams();
    if (this.symbols) query.set("symbols", [...this.symbols].sort().join(","));
    const resumes = this.#known.id && this.#known.symbols !== undefined && same(this.#known.symbols, this.symbols);
    if (resumes) query.set("lastEventId", this.#known.id);
    this.#source = new EventSource(`/page/stream?${query}`);
    for (const name of NAMES) this.#source.addEventListener(name, (event) => this.#hear(name, event));
    this.#source.onerror = () => this.#failed();
    this.#watch();
  }

  #hear(name, event) {
    this.#heardAt = Date.now();
    this.#pause = SHORTEST_MS;
    this.#watch();
    if (this.#lost) {
      this.#lost = false;
      this.#told({ name: "back", data: { at: this.#heardAt } });
    }
    const symbols = name === "snapshot" ? this.symbols : undefined;
    this.#told({ name, data: JSON.parse(event.data), id: event.lastEventId, symbols });
  }

  /** The connection failed, or the service closed it because a key or session ended. The next attempt finds out which.
   */
  #failed() {
    this.#drop();
    if (!this.#lost) {
      this.#lost = true;
      this.#told({ name: "lost", data: { at: this.#heardAt } });
    }
    this.#timer = setTimeout(() => this.#open(), this.#pause * (0.75 + Math.random() / 2));
    this.#pause = Math.min(this.#pause * 2, LONGEST_MS);
  }
}

const same = (a, b) => a === b || (a instanceof Set && b instanceof Set && a.size === b.size && [...a].every((each) => b.has(each)));
