// A perimeter: its constraints, and its budgets as gauges.
import { Card, Filters, Json, useQuery } from "../parts.js";
import { Facts, get, html, Id, Loaded, Money, Page, Time, useLoad } from "../object.js";
import { minorOf } from "../format.js";

// Gauge is how much of a limit is used. A budget per payee shows use only for one payee.
export function Gauge({ of: u }) {
	const counts = u.currency == null;
	const part = u.used == null ? null : Number((minorOf(u.used) * 1000n) / (minorOf(u.limit) || 1n)) / 10;
	const words = `${u.used ?? "?"} of ${u.limit} ${u.currency || "payments"} a ${u.window}${u.per === "payee" ? " for each payee" : ""}`;
	return html`<div class="gauge"><meter min="0" max="100" high="80" optimum="0" value=${part ?? 0} aria-label=${words}></meter>
		<span>${u.used == null ? html`up to ` : html`<${Money} amount=${u.used} /> of `}<${Money} amount=${u.limit} currency=${counts ? "payments" : u.currency} /> a ${u.window}${u.per === "payee" ? html` for ${u.payee ? html`<span class="text">${u.payee}</span>` : "each payee"}` : ""}</span>
		<span class="soft">until <${Time} at=${u.resets_at} /></span></div>`;
}

export default function Perimeter({ id }) {
	const [query, change] = useQuery();
	const found = useLoad(() => get(`/v1/perimeters/${id}`, { payee: query.payee }), [id, query.payee]);
	return html`<${Page} title="Perimeter" sub=${html`<span class="mono">${id}</span>`}><${Loaded} of=${found}>${(p) => html`
		<${Facts} rows=${[
			["Version", `${p.version} of ${p.versions.join(", ")}`],
			["Accounts", html`${p.merchant_accounts.map((a) => html`<div key=${a.id}><${Id} of=${a.id} />, version ${a.version}</div>`)}`],
		]} />
		<${Card} title="What is used"><${Filters} fields=${[{ name: "payee", label: "For one payee", hint: "shop.example" }]} values=${{ payee: query.payee }} onChange=${change} />
			${p.usage.length ? p.usage.map((u, i) => html`<${Gauge} of=${u} key=${i} />`) : html`<p class="empty">It has no budget and no frequency.</p>`}</${Card}>
		<${Card} title="Constraints"><${Json} of=${p.constraints} label="Constraints" /></${Card}>`}</${Loaded}></${Page}>`;
}
