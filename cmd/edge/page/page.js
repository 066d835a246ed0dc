// The page: what a person sees of the sandbox, and sends to it.
import { sign } from "./assertion.js";
import { parse } from "./curl.js";
import { open } from "./sandbox.js";

const $ = (id) => document.getElementById(id);
const steps = { download: "Loading", compile: "Compiling", start: "Starting", wait: "Another tab is closing the sandbox; waiting for it" };
const most = 200; // events that are shown

let sandbox;
const variables = {};

const bearer = '-H "Authorization: Bearer $TOLLGATE_TOKEN"';
const body = (value) => `--json '${JSON.stringify(value)}'`;
const keyed = () => `-H "Idempotency-Key: ${crypto.randomUUID()}"`;
const pay = (payee, amount = "100.00") => `curl "$TOLLGATE_URL/v1/payments" \\\n  ${bearer} \\\n  ${keyed()} \\\n  ${body({ amount, currency: "EUR", payee })}`;

// The first minute of the README. A step waits for the variables in its command.
const minute = [
	["token", "Get a token", () => `curl "$TOLLGATE_URL/oauth2/token" \\\n  -d grant_type=client_credentials \\\n  -d client_assertion_type=urn:ietf:params:oauth:client-assertion-type:jwt-bearer \\\n  -d client_assertion=$ASSERTION`],
	["quote", "Ask for a quote", () => `curl "$TOLLGATE_URL/v1/quotes" \\\n  ${bearer} \\\n  ${body({ amount: "100.00", currency: "EUR", payee: "shop.example" })}`],
	["pay", "Pay 100.00 EUR", () => pay("shop.example")],
	["capture-part", "Capture 60.00", () => `curl "$TOLLGATE_URL/v1/payments/$PAYMENT/captures" \\\n  ${bearer} \\\n  ${keyed()} \\\n  ${body({ amount: "60.00", final_capture: false })}`],
	["capture", "Capture the rest", () => `curl "$TOLLGATE_URL/v1/payments/$PAYMENT/captures" \\\n  ${bearer} \\\n  ${keyed()} \\\n  ${body({})}`],
	["ticket", "Read the ticket", () => `curl "$TOLLGATE_URL/v1/tickets/$TICKET" \\\n  ${bearer}`],
	["transactions", "List the transactions", () => `curl -G "$TOLLGATE_URL/v1/transactions" \\\n  ${bearer} \\\n  -d payment_id=$PAYMENT`],
	["events", "List the events", () => `curl "$TOLLGATE_URL/v1/events" \\\n  ${bearer}`],
	["deliveries", "List the deliveries", () => `curl "$TOLLGATE_URL/v1/webhooks/$TOLLGATE_WEBHOOK/deliveries" \\\n  ${bearer}`],
];

const payees = [
	["deny.test", "the perimeter denies it: 403"],
	["refuse.test", "a rule refuses it: 422"],
	["trap.test", "a rule crashes: 503, no payment"],
	["loop.test", "a rule never ends, and is stopped: 503"],
];

build();
open({ progress }).then(ready, failed);

function progress(loaded, total, step) {
	const mb = (n) => (n / 1e6).toFixed(1);
	const bar = $("progress");
	if (step === "download" && total > 0) bar.value = Math.min(1, loaded / total);
	else bar.removeAttribute("value");
	$("step").textContent = step === "download" && loaded > 0 ? `${steps[step]}: ${mb(loaded)}${total > 0 ? ` of ${mb(total)}` : ""} MB` : steps[step];
}

function failed(error) {
	$("loading").classList.add("failed");
	$("progress").hidden = true;
	$("step").textContent = error.message;
}

function ready(opened) {
	sandbox = opened;
	Object.assign(variables, sandbox.environment);
	$("loading").hidden = true;
	$("main").hidden = $("clock").hidden = false;
	$("receiving").value = sandbox.receiving;
	sandbox.deliveries.forEach(showDelivery);
	sandbox.addEventListener("delivery", ({ detail }) => showDelivery(detail));
	sandbox.addEventListener("receiving", ({ detail }) => $("receiving").value = detail);
	choose("token");
	enable();
	// The page itself needs a token too, for what it shows; the first minute is the
	// person's own.
	follow();
	tell();
	setInterval(tick, 1000);
}

// build makes what the page has many of.
function build() {
	for (const [name, label] of minute) {
		$("steps").append(element("li", {}, element("button", { id: `step-${name}`, textContent: label, disabled: true, onclick: () => (choose(name), send(name)) })));
	}
	for (const [payee, what] of payees) {
		$("payees").append(element("li", {}, element("button", { onclick: () => write(pay(payee)) }, payee, element("small", { textContent: what }))));
	}
	$("send").onclick = () => send();
	$("request").onkeydown = (event) => {
		if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
	};
	const tabs = [...document.querySelectorAll("[role=tab]")];
	for (const [i, tab] of tabs.entries()) {
		tab.onclick = () => select(tab);
		tab.onkeydown = ({ key }) => {
			const next = tabs[(i + { ArrowRight: 1, ArrowLeft: tabs.length - 1 }[key]) % tabs.length];
			if (next) {
				select(next);
				next.focus();
			}
		};
	}
	$("receiving").onchange = () => sandbox.receive(Number($("receiving").value));
	for (const button of document.querySelectorAll("[data-advance]")) button.onclick = () => advance(button.dataset.advance);
	$("advance").onsubmit = (event) => {
		event.preventDefault();
		advance($("duration").value.trim());
	};
	$("export").onclick = () => state("Exported.", async () => {
		const url = URL.createObjectURL(await sandbox.export());
		element("a", { href: url, download: `sandbox-${new Date().toISOString().slice(0, 10)}.tollgate` }).click();
		setTimeout(() => URL.revokeObjectURL(url), 60_000);
	});
	$("import").onchange = () => state("Imported.", async () => {
		const [file] = $("import").files;
		$("import").value = "";
		if (file && confirm("Replace everything in this sandbox by the file?")) await sandbox.import(file);
	});
	$("reset").onclick = () => state("Reset.", async () => {
		if (confirm("Forget everything in this sandbox, its keys too?")) await sandbox.reset();
	});
}

function element(name, properties, ...children) {
	const made = Object.assign(document.createElement(name), properties);
	made.append(...children);
	return made;
}

function select(tab) {
	for (const other of document.querySelectorAll("[role=tab]")) {
		const chosen = other === tab;
		other.setAttribute("aria-selected", chosen);
		other.tabIndex = chosen ? 0 : -1;
		$(other.getAttribute("aria-controls")).hidden = !chosen;
	}
}

async function state(done, act) {
	try {
		await act();
		$("state").textContent = done;
	} catch (error) {
		$("state").textContent = error.message;
	}
}

// enable has a step wait for what its command names.
function enable() {
	for (const [name, , command] of minute) {
		const names = [...command().matchAll(/\$(\w+)/g)].map(([, found]) => found);
		$(`step-${name}`).disabled = names.some((n) => n !== "ASSERTION" && variables[n] === undefined);
	}
	const known = ["TOLLGATE_TOKEN", "PAYMENT", "TICKET"].filter((n) => variables[n]);
	$("variables").textContent = known.map((n) => `$${n}`).join("  ");
}

function choose(name) {
	write(minute.find(([step]) => step === name)[2]());
}

function write(command) {
	$("request").value = command;
}

// send sends what the editor has, and shows the answer.
async function send(step) {
	const command = $("request").value;
	show();
	try {
		const request = parse(command, { ...variables, ASSERTION: await assertion() }, sandbox.base);
		const { url, ...options } = request;
		const answer = await fetch(url, options);
		const text = await answer.text();
		const json = parsed(text);
		show(answer, text, json);
		learn(json);
		if (answer.ok && step) $(`step-${step}`).dataset.done = "";
		if (request.method !== "GET") refresh();
	} catch (error) {
		$("problem").textContent = error.message;
		$("problem").hidden = false;
	}
}

function assertion() {
	return sign(sandbox.environment.TOLLGATE_CLIENT_JWK, sandbox.environment.TOLLGATE_CLIENT_ID, sandbox.base);
}

function parsed(text) {
	try {
		return JSON.parse(text);
	} catch {
		return undefined;
	}
}

function show(answer, text = "", json) {
	const status = $("status");
	status.textContent = answer ? `${answer.status} ${answer.ok ? "" : json?.code ?? ""}`.trim() : "";
	status.classList.toggle("bad", Boolean(answer && !answer.ok));
	$("problem").textContent = answer && !answer.ok ? [json?.message ?? json?.error_description, json?.code === "token_expired" ? "Press Get a token." : ""].filter(Boolean).join(" ") : "";
	$("problem").hidden = $("problem").textContent === "";
	$("headers").hidden = !answer;
	$("header-lines").textContent = answer ? [...answer.headers].map(([name, value]) => `${name}: ${value}`).join("\n") : "";
	$("answer").textContent = json ? JSON.stringify(json, null, 2) : text;
}

// learn takes the variables that an answer gives.
function learn(json) {
	if (json?.access_token) variables.TOLLGATE_TOKEN = json.access_token;
	if (json?.object === "payment") {
		variables.PAYMENT = json.id;
		variables.TICKET = json.ticket_id;
	}
	enable();
}

// token is the page's own, for what it shows beside.
const token = { value: "", until: 0 };

async function ask(method, path, value, signal) {
	if (Date.now() > token.until) {
		const form = new URLSearchParams({
			grant_type: "client_credentials", client_assertion: await assertion(),
			client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
		});
		const granted = await (await fetch(`${sandbox.base}/oauth2/token`, { method: "POST", body: form })).json();
		token.value = granted.access_token;
		token.until = Date.now() + (granted.expires_in - 60) * 1000;
	}
	const headers = { authorization: `Bearer ${token.value}` };
	if (value) headers["content-type"] = "application/json";
	const answer = await fetch(`${sandbox.base}${path}`, { method, headers, signal, body: value && JSON.stringify(value) });
	const json = await answer.json();
	if (!answer.ok) throw new Error(json.message);
	return json;
}

// follow shows events as they happen.
async function follow() {
	let cursor = "";
	for (;;) {
		try {
			const page = await ask("GET", `/v1/events?limit=100${cursor && `&wait=20&cursor=${encodeURIComponent(cursor)}`}`);
			cursor = page.next_cursor ?? cursor;
			page.data.forEach(showEvent);
			if (page.data.length > 0) refresh();
		} catch {
			await new Promise((resolve) => setTimeout(resolve, 2000));
		}
	}
}

function showEvent(event) {
	$("events").querySelector("p")?.remove();
	entry($("log"), event.type, event.created_at, JSON.stringify(event, null, 2));
}

function showDelivery({ at, url, headers, body: text, status }) {
	const { host, pathname } = new URL(url);
	const lines = [`POST ${pathname} HTTP/1.1`, `Host: ${host}`, ...headers.map(([name, value]) => `${name}: ${value}`), "", JSON.stringify(parsed(text) ?? text, null, 2)];
	const type = parsed(text)?.type ?? "delivery";
	entry($("deliveries"), `${type} → ${status}`, at, lines.join("\n"), status !== 200);
}

function entry(list, title, at, text, bad) {
	list.prepend(element("li", {}, element("details", {},
		element("summary", {}, element("span", { textContent: title, className: bad ? "bad" : "" }), element("time", { textContent: at.slice(0, 19).replace("T", " ") })),
		element("pre", { textContent: text }))));
	while (list.children.length > most) list.lastChild.remove();
}

// refresh reads the ticket of the last payment again.
async function refresh() {
	if (!variables.TICKET) return;
	try {
		showTicket(await ask("GET", `/v1/tickets/${variables.TICKET}`));
	} catch { // of an import, perhaps
		$("ticket").replaceChildren(element("p", { textContent: "The ticket cannot be read." }));
	}
}

function showTicket(ticket) {
	const cells = (kind, ...texts) => element("tr", {}, ...texts.map((text) => element(kind, { textContent: text ?? "" })));
	const rows = ticket.lines.map((line) => {
		const row = cells("td", line.label, line.amount, "", line.evaluation);
		row.children[2].append(element("code", { textContent: line.rule }));
		return row;
	});
	const facts = { Payment: ticket.payment_id, Amount: `${ticket.amount} ${ticket.currency}`, Payee: ticket.payee, Decision: `${ticket.decision} by ${ticket.perimeter.id}@${ticket.perimeter.version}`, Digest: ticket.evaluations?.at(-1)?.lines_sha256 };
	$("ticket").replaceChildren(
		element("table", {},
			element("thead", {}, cells("th", "Fee", "Amount", "Rule", "Evaluation")),
			element("tbody", {}, ...rows),
			element("tfoot", {}, cells("td", "Total", ticket.total, ticket.currency))),
		element("dl", {}, ...Object.entries(facts).flatMap(([name, value]) => [element("dt", { textContent: name }), element("dd", {}, element("code", { textContent: value ?? "" }))])));
}

let ahead = 0; // of real time, in milliseconds

// tell asks what the time is in the sandbox.
async function tell() {
	try {
		ahead = Date.parse((await ask("GET", "/v1/sandbox/clock")).now) - Date.now();
		tick();
	} catch { // when it is moved
	}
}

function tick() {
	$("now").textContent = new Date(Date.now() + ahead).toISOString().slice(0, 19).replace("T", " ");
}

async function advance(by) {
	try {
		await ask("POST", "/v1/sandbox/clock", { advance: by });
		$("state").textContent = "";
		await tell();
	} catch (error) {
		$("state").textContent = error.message;
	}
}
