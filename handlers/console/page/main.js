// The console: a page for each address below /console.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, Problem } from "./api.js";
import { go, home, kindOf } from "./links.js";
import { Fault, html, Link, Page, useLoad } from "./parts.js";

// A page's code is loaded when somebody opens it.
const sections = [
	{ path: "payments", name: "Payments", load: () => import("./views/payments.js") },
	{ path: "events", name: "Events", load: () => import("./views/events.js") },
	{ path: "audit", name: "Audit", load: () => import("./views/audit.js") },
	{ path: "rules", name: "Rules", load: () => import("./views/rules.js") },
	{ path: "webhooks", name: "Webhooks", load: () => import("./views/webhooks.js") },
	{ path: "payouts", name: "Payouts", load: () => import("./views/payouts.js") },
	{ path: "perimeters", name: "Perimeters", load: () => import("./views/perimeters.js") },
	{ path: "exports", name: "Exports", load: () => import("./views/exports.js") },
	{ path: "accounts", name: "Accounts", load: () => import("./views/accounts.js") },
];

const objects = {
	payment: ["payments", () => import("./views/payment.js")],
	refund: ["payments", () => import("./views/refund.js")],
	event: ["events", () => import("./views/event.js")],
	rule: ["rules", () => import("./views/rule.js")],
	"rule set": ["rules", () => import("./views/rule_set.js")],
	shadow: ["rules", () => import("./views/shadow.js")],
	webhook: ["webhooks", () => import("./views/webhook.js")],
	payout: ["payouts", () => import("./views/payout.js")],
	perimeter: ["perimeters", () => import("./views/perimeter.js")],
	export: ["exports", () => import("./views/export.js")],
	account: ["accounts", () => import("./views/account.js")],
	organization: ["accounts", () => import("./views/organization.js")],
	grant: ["accounts", () => import("./views/grant.js")],
};

// find is the section that an address belongs to, and what loads its page.
function find(path) {
	const rest = path.slice(home.length).replace(/^\/+|\/+$/g, "");
	if (rest === "") return { section: "payments", load: sections[0].load };
	const section = sections.find((s) => s.path === rest);
	if (section) return { section: rest, load: section.load };
	const object = objects[kindOf(rest)];
	if (object) return { section: object[0], load: object[1], id: rest };
	return {};
}

function useAddress() {
	const [path, setPath] = useState(location.pathname + location.search);
	useEffect(() => {
		const changed = () => setPath(location.pathname + location.search);
		addEventListener("popstate", changed);
		addEventListener("tollgate:go", changed);
		return () => {
			removeEventListener("popstate", changed);
			removeEventListener("tollgate:go", changed);
		};
	}, []);
	return path;
}

// Find takes any id: of the CLI, of a log, of a colleague's message.
function Find() {
	const [unknown, setUnknown] = useState(false);
	const submit = (event) => {
		event.preventDefault();
		const text = new FormData(event.currentTarget).get("id").trim();
		const rule = /^rule:([a-z0-9_]+)@(v[0-9]+)$/.exec(text);
		const id = rule ? `rul_${rule[1]}_${rule[2]}` : text;
		setUnknown(!kindOf(id));
		if (kindOf(id)) {
			event.currentTarget.reset();
			go(`${home}/${id}`);
		}
	};
	return html`<form class="find" role="search" aria-label="Open an id" onSubmit=${submit}>
		<input id="find" name="id" placeholder="Open an id: pay_… " aria-label="Id of anything" aria-invalid=${unknown} autocomplete="off" spellcheck=${false} onInput=${() => setUnknown(false)} />
		${unknown && html`<span class="bad" role="alert">No id that has a page.</span>`}
	</form>`;
}

function Nav({ section, session }) {
	return html`<header class="top">
		<${Link} to=${home} class="brand"><img src="/console/icon.svg" alt="" width="22" height="22" /> Tollgate <small>${session.sandbox ? "sandbox" : "console"}</small></${Link}>
		<nav aria-label="Sections"><ul>${sections.map((s) => html`<li key=${s.path}><${Link} to=${`${home}/${s.path}`} aria-current=${s.path === section ? "page" : undefined}>${s.name}</${Link}></li>`)}</ul></nav>
		<${Find} />
		<p class="whoami"><span class="state ${session.write ? "busy" : "plain"}">${session.write ? "can write" : "read-only"}</span></p>
	</header>`;
}

function View({ address, session }) {
	const { load, id, section } = find(location.pathname);
	const [view, setView] = useState(null);
	const main = useRef(null);
	const first = useRef(true);
	useEffect(() => {
		if (!load) return setView({ missing: true });
		let current = true;
		load().then(
			(module) => current && setView({ Show: module.default, address: location.pathname, id }),
			() => current && setView({ problem: new Problem(0, { message: "A part of the console could not be loaded. Load the page again." }) }),
		);
		return () => { current = false; };
	}, [location.pathname]);
	useEffect(() => {
		// A screen reader is told of the new page, and the keyboard starts at its top.
		if (!first.current) main.current?.querySelector("h1")?.focus({ preventScroll: true });
		first.current = false;
		scrollTo(0, 0);
	}, [view]);
	return html`<${Nav} section=${section} session=${session} /><main ref=${main} id="main">${
		!view ? html`<p class="loading" role="status">Loading…</p>`
			: view.missing ? html`<${Page} title="Nothing here"><p>There is no page at this address. Open an id above, or choose a section.</p></${Page}>`
			: view.problem ? html`<${Fault} problem=${view.problem} />`
			: html`<${view.Show} key=${view.address} id=${view.id} session=${session} />`
	}</main>`;
}

// Closed is what the page shows to somebody without the token.
function Closed({ problem, retry }) {
	return html`<main id="main" class="closed"><${Page} title="Tollgate console">
		${problem.status === 403
			? html`<p>This page shows nothing yet: it does not know who you are.</p>
				<p>Open the address that <code>tollgate console</code> or <code>tollgate dev</code> printed. It has a token in it, and works until that command ends.</p>`
			: html`<${Fault} problem=${problem} retry=${retry} />`}
	</${Page}></main>`;
}

// The keyboard: / searches, j and k walk through the rows, g and a letter opens a section.
function useKeyboard() {
	useEffect(() => {
		let leading = false;
		const press = (event) => {
			if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
			const rows = [...document.querySelectorAll(".row-link")];
			const at = rows.indexOf(document.activeElement);
			const wasLeading = leading;
			leading = false;
			if (wasLeading) {
				const section = sections.find((s) => s.path.startsWith(event.key) || (event.key === "o" && s.path === "payouts"));
				if (section) go(`${home}/${section.path}`);
			} else if (event.key === "g") {
				leading = true;
			} else if (event.key === "/") {
				event.preventDefault();
				(document.querySelector("[data-search]") || document.querySelector("#find")).focus();
			} else if (event.key === "j") {
				rows[Math.min(at + 1, rows.length - 1)]?.focus();
			} else if (event.key === "k") {
				rows[Math.max(at - 1, 0)]?.focus();
			}
		};
		addEventListener("keydown", press);
		return () => removeEventListener("keydown", press);
	}, []);
}

function Console() {
	const address = useAddress();
	const session = useLoad(() => get("/session"), []);
	useKeyboard();
	if (session.problem) return html`<${Closed} problem=${session.problem} retry=${session.reload} />`;
	if (!session.data) return html`<main id="main"><p class="loading" role="status">Loading…</p></main>`;
	return html`<a class="skip" href="#main">Skip to the page</a><${View} address=${address} session=${session.data} />`;
}

render(html`<${Console} />`, document.getElementById("console"));
