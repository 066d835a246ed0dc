// What the page asks the console's own process, which signs each request and
// passes it on to the API.

// Problem is an answer that is no success (RFC 9457), or none at all.
export class Problem extends Error {
	constructor(status, body, help = "") {
		super(body.message || body.title || `The console answers ${status}.`);
		this.status = status;
		this.code = body.code || "";
		this.body = body;
		this.help = help; // the page of this code, where the API names one
	}
}

const base = "/console/api";

// now is the service's clock, by its last answer: a sandbox may be days ahead.
export const now = () => Date.now() + ahead;
let ahead = 0;

async function send(path, options = {}) {
	let response;
	try {
		response = await fetch(base + path, { credentials: "same-origin", ...options });
	} catch (error) {
		if (error.name === "AbortError") throw error;
		throw new Problem(0, { message: "The console does not answer. It may have been stopped: start it again and open its new address." });
	}
	const date = Date.parse(response.headers.get("Date") ?? "");
	if (date) ahead = date - Date.now();
	if (response.ok) return response;
	let body = {};
	try {
		body = await response.json();
	} catch {
		// A proxy's page: the status speaks.
	}
	const help = /<(https?:[^>]+)>; rel="help"/.exec(response.headers.get("Link") ?? "");
	throw new Problem(response.status, body, help?.[1]);
}

// get reads path, such as "/v1/payments", with a query; what is empty is left out. It is
// null where there is nothing.
export async function get(path, query = {}, signal) {
	const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value != null));
	const response = await send(search.size ? `${path}?${search}` : path, { signal });
	return response.status === 204 ? null : response.json();
}

// bytes reads what is no JSON.
export async function bytes(path) {
	return (await send(path)).arrayBuffer();
}

// write sends a change. With a key, sending it again is the same change.
export async function write(method, path, body, key) {
	const headers = {};
	if (body !== undefined) headers["Content-Type"] = "application/json";
	if (key) headers["Idempotency-Key"] = key;
	const response = await send(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
	const text = await response.text();
	return text ? JSON.parse(text) : null;
}

// calculate is a POST that changes nothing: a quote, a preview.
export const calculate = (path, body) => write("POST", path, body);

// newKey is an idempotency key.
export const newKey = () => crypto.randomUUID();

// all reads a list to its end, or to most objects.
export async function all(path, query = {}, most = 1000) {
	const found = [];
	let cursor = "";
	do {
		const page = await get(path, { ...query, limit: 100, cursor });
		found.push(...page.data);
		cursor = page.has_more && found.length < most ? page.next_cursor : "";
	} while (cursor);
	return found;
}
