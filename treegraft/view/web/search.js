// A small language for finding tokens: plain text, #123 (a token id), or conditions such as `p<0.1 and accepted`. It is read
// here, piece by piece, and never run as code. A condition on something that a token does not have is not met.

const IN_NUMBERS = {
  p: (at) => likelihood(at.round.logprob[at.node]), q: (at) => likelihood(at.round.q[at.node]),
  score: (at) => (at.round.score[at.node] === null || at.node === 0 ? null : at.round.score[at.node] / NATS),
  rank: (at) => at.round.rank[at.node] || null,
  targetrank: (at) => (at.node in at.round.ranks ? at.round.ranks[at.node] + 1 : null),
  depth: (at) => at.depth, round: (at) => at.round.index, token: (at) => at.token,
  layer: (at) => at.round.events[at.round.born[at.node]]?.layer ?? null,
};

const likelihood = (logprob) => (logprob === null || logprob === undefined ? null : chance(logprob));

const IN_WORDS = {
  drafter: (at) => at.view.drafters.filter((drafter) => drafter.id === at.round.origin[at.node])
    .flatMap((drafter) => [drafter.name, drafter.kind, `${drafter.id}`]),
  text: (at) => [at.text],
};

const MARKS = {
  root: (at) => at.fate === "root", accepted: (at) => at.fate === "accepted", rejected: (at) => at.fate === "rejected",
  unreached: (at) => at.fate === "unreached", pruned: (at) => at.fate === "pruned",
  discarded: (at) => at.fate === "discarded", bonus: (at) => at.fate === "bonus",
  grafted: (at) => at.sets.grafted.has(at.node), copied: (at) => at.node in at.round.copied,
  retrieved: (at) => at.sets.retrieved.has(at.node), rescored: (at) => at.sets.rescored.has(at.node),
  unreachable: (at) => at.sets.unreachable.has(at.node),
};

const ALLOWED = `Numbers: ${Object.keys(IN_NUMBERS).join(", ")} with < <= > >= = !=. Words: ${Object.keys(IN_WORDS).join(", ")} with`
  + ` = !=. Marks: ${Object.keys(MARKS).join(", ")}. Join them with and, or, not and ( ). Put text in quotes.`;

class QueryError extends Error {}

const has = (table, name) => Object.prototype.hasOwnProperty.call(table, name);
const isKnown = (word) => has(IN_NUMBERS, word) || has(IN_WORDS, word) || has(MARKS, word);

// Whether a token's label holds a text; a space may be written as such, or as the sign that labels have for it.
function holds(label, text) {
  const wanted = text.toLowerCase(), shown = label.toLowerCase();
  return shown.includes(wanted) || shown.replaceAll("·", " ").includes(wanted);
}

// The condition that a query stands for, as a function of what `tokensOf` gives. Throws a `QueryError`.
function queryOf(text) {
  const parts = partsOf(text);
  const plain = parts.every(({ kind, value }) => kind === "word" && !isKnown(value.toLowerCase()));
  if (plain && parts.length === 1 && /^\d+$/.test(parts[0].value)) return (at) => at.token === Number(parts[0].value);
  if (plain || (parts.length === 1 && ["and", "or", "not"].includes(parts[0].value.toLowerCase()))) return (at) => holds(at.text, text.trim());
  return new Query(parts).whole();
}

function partsOf(text) {
  const pattern = /\s*(?:"([^"]*)"|#(\d+)|(<=|>=|!=|<|>|=|\(|\))|([^\s()<>=!"]+))/y, parts = [];
  const end = text.trimEnd().length;
  while (pattern.lastIndex < end) {
    const from = pattern.lastIndex, found = pattern.exec(text);
    if (!found) throw new QueryError(`“${short(text.slice(from).trim(), 20)}” cannot be read${text.slice(from).trim()[0] === '"' ? ": a quote is not closed" : ""}.`);
    const [, quoted, id, sign, word] = found;
    parts.push(quoted !== undefined ? { kind: "text", value: quoted } : id ? { kind: "id", value: id }
      : sign ? { kind: "sign", value: sign } : { kind: "word", value: word });
  }
  return parts;
}

class Query {
  constructor(parts) {
    this.parts = parts;
    this.place = 0;
  }

  whole() {
    const test = this.either();
    if (this.place < this.parts.length) throw new QueryError(`“${short(this.parts[this.place].value, 20)}” follows without and, or.`);
    return test;
  }

  takes(value) {
    const part = this.parts[this.place];
    const found = part && (part.kind === "word" || part.kind === "sign") && part.value.toLowerCase() === value;
    if (found) this.place += 1;
    return Boolean(found);
  }

  either() {
    const tests = [this.both()];
    while (this.takes("or")) tests.push(this.both());
    return (at) => tests.some((test) => test(at));
  }

  both() {
    const tests = [this.negated()];
    while (this.takes("and")) tests.push(this.negated());
    return (at) => tests.every((test) => test(at));
  }

  negated() {
    if (!this.takes("not")) return this.one();
    const test = this.negated();
    return (at) => !test(at);
  }

  one() {
    if (this.takes("(")) {
      const test = this.either();
      if (!this.takes(")")) throw new QueryError("A bracket is not closed.");
      return test;
    }
    const part = this.parts[this.place];
    if (!part || part.kind === "sign") throw new QueryError(part ? `“${part.value}” stands where a condition is expected.` : "A condition is missing at the end.");
    this.place += 1;
    if (part.kind === "text") return (at) => holds(at.text, part.value);
    if (part.kind === "id") return (at) => at.token === Number(part.value);
    return this.named(part.value.toLowerCase());
  }

  named(name) {
    if (has(MARKS, name)) return MARKS[name];
    if (!isKnown(name)) throw new QueryError(`“${short(name, 20)}” is not known here.`);
    const sign = this.parts[this.place], value = this.parts[this.place + 1];
    if (sign?.kind !== "sign" || "()".includes(sign.value)) throw new QueryError(`“${name}” needs a comparison, as in ${has(IN_NUMBERS, name) ? `${name}<0.5` : `${name}=lookup`}.`);
    if (!value || value.kind === "sign") throw new QueryError(`“${name}${sign.value}” needs a value.`);
    this.place += 2;
    return has(IN_NUMBERS, name) ? compared(name, sign.value, value.value) : worded(name, sign.value, value.value);
  }
}

const COMPARE = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  "=": (a, b) => a === b, "!=": (a, b) => a !== b };

function compared(name, sign, value) {
  const limit = Number(value.replace("−", "-"));
  if (!Number.isFinite(limit)) throw new QueryError(`“${name}” is compared with a number, not with “${short(value, 20)}”.`);
  return (at) => {
    const own = at.node === "bonus" && !["depth", "round", "token"].includes(name) ? null : IN_NUMBERS[name](at);
    return own !== null && COMPARE[sign](own, limit);
  };
}

function worded(name, sign, value) {
  if (sign !== "=" && sign !== "!=") throw new QueryError(`“${name}” is compared by = or !=.`);
  return (at) => {
    const own = IN_WORDS[name](at);
    return own.length > 0 && own.some((word) => holds(word, value)) === (sign === "=");
  };
}

// What a query looks at: every node of a round, and the target's own token after it.
function tokensOf(view, round) {
  const depth = depths(round);
  const sets = { grafted: new Set(round.grafted), retrieved: new Set(round.retrieved),
    rescored: new Set(round.changes.filter(([event]) => round.events[event].kind === "rescore").map(([, node]) => node)),
    unreachable: new Set(round.events.flatMap((event) => event.unreachable || [])) };
  const found = round.token.map((token, node) => ({ view, round, sets, node, token, depth: depth[node],
    text: piece(view, token), fate: FATE[round.fate[node]] }));
  const { token, parent } = round.bonus;
  return [...found, { view, round, sets, node: "bonus", token, depth: depth[parent] + 1, text: piece(view, token), fate: "bonus" }];
}
