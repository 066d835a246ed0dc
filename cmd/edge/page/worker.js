// The worker runs the program for all tabs of the page, and is the only one that
// writes what the browser keeps.
import { Program } from "./program.js";
import { State } from "./state.js";

const base = new URL(".", import.meta.url).href.replace(/\/$/, "");
const shown = 50; // deliveries
const tabs = new Set();

let state, program, receiving = 200;
let stage = { loaded: 0, total: 0, step: "download" };
const deliveries = [];

if ("onconnect" in globalThis) {
	globalThis.onconnect = (event) => attach(event.ports[0]);
} else { // where there are no shared workers: of one tab
	attach(globalThis);
}
const started = start();
started.catch(() => {}); // each tab is told

// start waits for the one before: two programs would each keep their own changes.
async function start() {
	const held = new Promise((resolve, reject) => {
		const waiting = setTimeout(() => progress({ step: "wait" }), 500);
		navigator.locks.request(`tollgate ${base}`, () => {
			clearTimeout(waiting);
			resolve();
			return new Promise(() => {}); // for as long as this worker lives
		}).catch(reject);
	});
	const module = download();
	module.catch(() => {});
	await held;
	state = await State.open(`tollgate ${base}`);
	program = new Program(await module, {
		idle: 60,
		setting: (name) => (name === "TOLLGATE_URL" ? base : ""),
		kept: () => state.pieces(),
		keep: (changes, whole) => state.add(changes, whole),
		deliver,
	});
	progress({ step: "start" });
	await program.start();
	return environment();
}

// download compiles the module while it arrives. A host may have unpacked it.
async function download() {
	const answer = await fetch("./tollgate.wasm.gz");
	if (!answer.ok) throw new Error(`${answer.url}: ${answer.status}`);
	const total = Number(answer.headers.get("content-length"));
	let loaded = 0, first = true;
	const counted = answer.body.pipeThrough(new TransformStream({
		transform(piece, to) {
			progress({ loaded: loaded += piece.length, total, step: "download" });
			to.enqueue(piece);
		},
		flush: () => progress({ step: "compile" }),
	}));
	const [head, whole] = counted.tee();
	const reader = head.getReader();
	const packed = (await reader.read()).value[0] === 0x1f;
	reader.cancel();
	const bytes = packed ? whole.pipeThrough(new DecompressionStream("gzip")) : whole;
	return WebAssembly.compileStreaming(new Response(bytes, { headers: { "content-type": "application/wasm" } }));
}

async function environment() {
	const list = await inside("GET", "/environment").then((answer) => answer.json());
	return Object.fromEntries(list.map(({ Name, Value }) => [Name, Value]).filter(([, value]) => value !== ""));
}

// inside asks the program what no page may ask.
async function inside(method, path, body) {
	const answer = await program.fetch(new Request(`https://inside${path}`, { method, body }));
	if (!answer.ok) throw new Error(await answer.text());
	return answer;
}

function deliver(url, headers, body) {
	const delivery = { at: new Date().toISOString(), url, headers, body, status: receiving };
	deliveries.push(delivery);
	if (deliveries.length > shown) deliveries.shift();
	tell({ event: "delivery", detail: delivery });
	return receiving;
}

function progress(next) {
	stage = { ...stage, ...next };
	tell({ event: "progress", detail: stage });
}

function tell(message) {
	for (const tab of tabs) tab.postMessage(message);
}

function attach(tab) {
	tabs.add(tab);
	tab.onmessage = async ({ data, ports }) => {
		if (data.request) return answer(data.request, ports[0]);
		try {
			tab.postMessage({ id: data.id, value: await calls[data.call](...data.args) });
		} catch (error) {
			tab.postMessage({ id: data.id, error: error?.message ?? String(error) });
		}
	};
	tab.postMessage({ event: "progress", detail: stage });
}

// What a tab may ask for.
const calls = {
	async open() {
		return { environment: await started, deliveries, receiving };
	},
	async export() {
		return (await inside("GET", "/state")).blob();
	},
	// import takes another state, if it is one.
	async import(blob) {
		const piece = new Uint8Array(await blob.arrayBuffer());
		await inside("POST", "/state", piece);
		await state.replace(piece);
		restart();
	},
	async reset() {
		await state.replace();
		restart();
	},
	receive(status) {
		receiving = status;
		tell({ event: "receiving", detail: status });
	},
};

// restart ends this worker, with a program that knows another state. The tabs make
// the next one.
function restart() {
	setTimeout(() => {
		tell({ event: "restart" });
		globalThis.close();
	});
}

// answer sends a request's answer to whoever waits at a port.
async function answer({ method, url, headers, body }, port) {
	const gone = new AbortController();
	port.onmessage = () => gone.abort();
	try {
		await started;
		const answer = await program.fetch(new Request(url, { method, headers, body, signal: gone.signal }));
		const bytes = await answer.arrayBuffer();
		port.postMessage({ status: answer.status, headers: [...answer.headers], body: bytes }, [bytes]);
	} catch (error) {
		port.postMessage({ error: error?.message ?? String(error) });
	}
	port.close();
}
