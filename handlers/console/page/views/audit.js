// Who did what, and what came of it, live.
import { Card, Filters, html, Id, Listing, Page, State, Time, useFollow, useList, useQuery } from "../parts.js";

const fields = [
	{ name: "type", label: "Types", hint: "payment.*" },
	{ name: "target", label: "About", hint: "pay_…" },
	{ name: "actor", label: "By", hint: "cli_…" },
	{ name: "outcome", label: "Outcome", options: ["succeeded", "refused", "denied"] },
];

const columns = [
	{ name: "Number", number: true, cell: (e) => e.seq },
	{ name: "At", cell: (e) => html`<${Time} at=${e.time} />` },
	{ name: "Type", cell: (e) => html`<span class="mono">${e.type}</span>` },
	{ name: "Outcome", cell: (e) => html`<${State} is=${e.outcome} />${e.reason && html` <span class="text">${e.reason}</span>`}` },
	{ name: "About", cell: (e) => html`<${Id} of=${e.target.id} />` },
	{ name: "By", cell: (e) => (e.actor.client_id ? html`<span class="mono">${e.actor.client_id}</span>` : "Tollgate") },
	{ name: "Request", cell: (e) => html`<span class="mono">${e.request.id}</span>` },
];

export default function Audit() {
	const [values, change] = useQuery();
	const { live, ...query } = values;
	const list = useList("/v1/audit", query);
	useFollow(live === "1", list.refresh);
	return html`<${Page} title="Audit" sub="Each change, each read of what is confidential, and each refusal of a known client."
		actions=${html`<button aria-pressed=${live ? "true" : "false"} onClick=${() => change({ ...query, live: live ? "" : "1" })}>${live ? "Stop following" : "Follow live"}</button>`}>
		<${Card} title="Entries"><${Filters} fields=${fields} values=${query} onChange=${(v) => change({ ...v, live })} />
			<${Listing} list=${list} label="Entries of the audit record" columns=${columns} empty="No entry matches." /></${Card}>
	</${Page}>`;
}
