// The log of everything that happened, live.
import { useEffect, useState } from "preact/hooks";
import { get } from "../api.js";
import { Fault, Filters, html, Id, Listing, Page, Table, Time, useList, useQuery } from "../parts.js";
import { linkTo } from "../links.js";

const fields = [
	{ name: "types", label: "Types", hint: "payment.*" },
	{ name: "object_id", label: "About", hint: "pay_…" },
	{ name: "merchant_account_id", label: "Account", hint: "ma_…" },
];

// about is the object that an event is about.
function about(event) {
	const d = event.data;
	return d.payment_id || d.payout_id || d.export_id || d.webhook_id || d.webhook_endpoint_id || d.rule_set_id || d.grant_id || d.merchant_account_id || d.organization_id;
}

const columns = [
	{ name: "Type", cell: (e) => html`<span class="mono">${e.type}</span>` },
	{ name: "At", cell: (e) => html`<${Time} at=${e.created_at} />` },
	{ name: "About", cell: (e) => html`<${Id} of=${about(e)} />` },
	{ name: "Number", number: true, cell: (e) => e.sequence },
	{ name: "Event", cell: (e) => html`<${Id} of=${e.id} />` },
];

const kept = 200; // of a live list

// Live follows the log from now on. What it has seen stays when the service is away.
function Live({ query }) {
	const [state, setState] = useState({ rows: [] });
	useEffect(() => {
		const stop = new AbortController();
		const follow = async () => {
			let cursor = "";
			while (!stop.signal.aborted) {
				try {
					const page = await get("/v1/events", { ...query, ...(cursor ? { cursor } : { after: "latest" }), wait: 8 }, stop.signal);
					cursor = page.next_cursor || cursor;
					setState((s) => ({ rows: [...page.data.reverse(), ...s.rows].slice(0, kept) }));
				} catch (problem) {
					if (stop.signal.aborted) return;
					setState((s) => ({ ...s, problem }));
					if (problem.status === 410) cursor = ""; // Redis went back: begin again
					await new Promise((wake) => setTimeout(wake, 2000));
				}
			}
		};
		follow();
		return () => stop.abort();
	}, [JSON.stringify(query)]);
	return html`<div aria-live="polite"><${Fault} problem=${state.problem} /><${Table} label="Events from now on" columns=${columns} rows=${state.rows} to=${(e) => linkTo(e.id)} empty="Waiting for the next event…" /></div>`;
}

export default function Events() {
	const [values, change] = useQuery();
	const { live, ...query } = values;
	const list = useList("/v1/events", { ...query, order: "desc" });
	return html`<${Page} title="Events" sub="Every change, in the order in which it was made." actions=${html`<button aria-pressed=${live ? "true" : "false"} onClick=${() => change({ ...query, live: live ? "" : "1" })}>${live ? "Stop following" : "Follow live"}</button>`}>
		<${Filters} fields=${fields} values=${query} onChange=${(v) => change({ ...v, live })} />
		${live ? html`<${Live} query=${query} />` : html`<${Listing} list=${list} label="Events" columns=${columns} to=${(e) => linkTo(e.id)} empty="No event matches." />`}
	</${Page}>`;
}
