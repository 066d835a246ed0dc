// Prices with the modules themselves, in the browser.
import { bytes, Problem } from "./api.js";
import { amountOf, minorOf, places } from "./format.js";

const patience = 5000; // ms, from when the rules begin to run; one that needs longer never ends

const modules = new Map(); // what was read, by SHA-256

function moduleOf({ rule, sha256 }) {
	if (!modules.has(sha256)) {
		const id = rule.replace(/^rule:(.+)@(v[0-9]+)$/, "rul_$1_$2");
		const reading = bytes(`/modules/${id}?sha256=${sha256}`);
		reading.catch(() => modules.delete(sha256));
		modules.set(sha256, reading);
	}
	return modules.get(sha256).then((read) => ({ rule, sha256, bytes: read }));
}

let worker = null;
let turns = 0;
const waiting = new Map();

function start() {
	const started = new Worker("/console/rule-worker.js", { type: "module" });
	started.onmessage = ({ data }) => {
		const asked = waiting.get(data.turn);
		if (data.begun) {
			asked.timer = setTimeout(() => end("A rule did not end within 5 s. The service stops such a rule by its fuel."), patience);
			return;
		}
		clearTimeout(asked.timer);
		waiting.delete(data.turn);
		asked.answer(data);
	};
	started.onerror = (event) => end(event.message || "The browser could not start the worker that runs rules.");
	return started;
}

function end(error) {
	worker?.terminate();
	worker = null;
	for (const asked of waiting.values()) {
		clearTimeout(asked.timer);
		asked.answer({ error });
	}
	waiting.clear();
}

// run prices inputs with rules ({rule, sha256}), in order. A result is {lines, total},
// {refused} or {failed}.
export async function run(rules, inputs) {
	const list = await Promise.all(rules.map(moduleOf));
	worker ||= start();
	const turn = ++turns;
	const { results, error } = await new Promise((answer) => {
		waiting.set(turn, { answer });
		worker.postMessage({ turn, modules: list, inputs });
	});
	if (error) throw new Problem(0, { message: error });
	return results;
}

// inputOf is what an evaluation of a ticket priced.
export function inputOf(evaluation) {
	const { amount, currency, payee, capture_index } = evaluation.input;
	return { minor: minorOf(amount), currency, exponent: places(amount), payee, captureIndex: capture_index, refund: evaluation.kind === "refund" };
}

// digestOf is the SHA-256 of lines as tickets have it (lines_sha256).
export async function digestOf(lines, exponent) {
	const text = JSON.stringify(lines.map((l) => ({ label: l.label, amount: amountOf(l.minor, exponent), rule: l.rule })));
	const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
	return [...new Uint8Array(sum)].map((b) => b.toString(16).padStart(2, "0")).join("");
}

// again runs an evaluation again, and says whether it gives the same lines.
export async function again(evaluation) {
	const input = inputOf(evaluation);
	const [result] = await run(evaluation.rules, [input]);
	if (result.failed) throw new Problem(0, { message: result.failed });
	if (result.refused) throw new Problem(0, { message: `${result.refused.rule} refuses it: ${result.refused.message}` });
	const digest = await digestOf(result.lines, input.exponent);
	return { ...result, exponent: input.exponent, digest, equal: digest === evaluation.lines_sha256 };
}
