// Runs modules apart from the page: one that never ends is ended with this worker,
// and only here may a page compile WebAssembly.
import { price, Rule } from "./rule.js";

const rules = new Map(); // by SHA-256

async function hexOf(bytes) {
	const sum = await crypto.subtle.digest("SHA-256", bytes);
	return [...new Uint8Array(sum)].map((b) => b.toString(16).padStart(2, "0")).join("");
}

async function load({ rule, sha256, bytes }) {
	if (rules.has(sha256)) return rules.get(sha256);
	if ((await hexOf(bytes)) !== sha256) throw new Error(`The bytes of ${rule} are not those that the ticket cites.`);
	const loaded = new Rule(rule, bytes);
	rules.set(sha256, loaded);
	return loaded;
}

function outcome(list, input) {
	try {
		return price(list, input);
	} catch (error) {
		return { failed: error.message };
	}
}

onmessage = async ({ data: { turn, modules, inputs } }) => {
	try {
		const list = [];
		for (const module of modules) list.push(await load(module));
		postMessage({ turn, begun: true }); // from now on, only a rule takes time
		postMessage({ turn, results: inputs.map((input) => outcome(list, input)) });
	} catch (error) {
		postMessage({ turn, error: error.message });
	}
};
