// A shadow: a version that prices beside the one in force, and where they differ.
import { write } from "../api.js";
import { Card, Change, Listing, useList } from "../parts.js";
import { Facts, get, html, Id, Loaded, Money, Page, State, Time, useLoad } from "../object.js";

const columns = [
	{ name: "At", cell: (d) => html`<${Time} at=${d.created_at} />` },
	{ name: "Amount", number: true, cell: (d) => html`<${Money} amount=${d.input.amount} currency=${d.input.currency} />` },
	{ name: "Payee", cell: (d) => html`<span class="text">${d.input.payee}</span>` },
	{ name: "Difference", number: true, cell: (d) => (d.error ? d.error.code : html`<${Money} amount=${d.difference} currency=${d.input.currency} />`) },
];

export default function Shadow({ id, session }) {
	const shadow = useLoad(() => get(`/v1/shadows/${id}`), [id]);
	const list = useList(`/v1/shadows/${id}/divergences`, {});
	return html`<${Page} title="Shadow" sub=${html`<span class="mono">${id}</span>`} actions=${shadow.data?.status === "active" && html`
		<${Change} session=${session} name="Stop" title="Stop this shadow" done=${shadow.reload} send=${(_, key) => write("POST", `/v1/shadows/${id}/stop`, undefined, key)}><p>It compares no more payments. What it found stays.</p></${Change}>`}>
		<${Loaded} of=${shadow}>${(s) => html`<${Facts} rows=${[
			["State", html`<${State} is=${s.status} />`],
			["Rule", html`<${Id} of=${s.rule.rule} />`],
			["Against", html`<${Id} of=${s.against} />`],
			["Compared", s.totals.compared],
			["Equal, different, failed", `${s.totals.equal}, ${s.totals.different}, ${s.totals.failed}`],
			s.totals.dropped > 0 && ["Not compared, for want of time", s.totals.dropped],
			["In all", html`${s.totals.differences.map((d) => html`<div key=${d.currency}><${Money} amount=${d.amount} currency=${d.currency} /></div>`)}`],
		]} />`}</${Loaded}>
		<${Card} title="Where they differ"><${Listing} list=${list} label="Divergences" columns=${columns} empty="Nowhere so far." /></${Card}>
	</${Page}>`;
}
