// Exports: jobs that make files.
import { write } from "../api.js";
import { Change, html, Listing, Page, State, Time, useList } from "../parts.js";
import { go, linkTo } from "../links.js";
import { size } from "../format.js";

const columns = [
	{ name: "Dataset", cell: (e) => e.dataset },
	{ name: "Format", cell: (e) => e.format },
	{ name: "Status", cell: (e) => html`<${State} is=${e.status} />` },
	{ name: "Rows", number: true, cell: (e) => e.result?.rows ?? e.progress.rows_done },
	{ name: "Size", number: true, cell: (e) => e.result && size(e.result.bytes) },
	{ name: "Created", cell: (e) => html`<${Time} at=${e.created_at} />` },
];

export default function Exports({ session }) {
	const list = useList("/v1/exports", {});
	return html`<${Page} title="Exports" actions=${html`<${Change} session=${session} name="Export" title="Make a file" done=${(e) => go(linkTo(e.id))}
		send=${(form, key) => write("POST", "/v1/exports/preview", { dataset: form.dataset, format: form.format }, key)}>
		<p>A worker makes the file. It is kept for a day.</p>
		<label>Dataset<select name="dataset">${["transactions", "payments", "tickets", "events", "payouts", "audit"].map((d) => html`<option>${d}</option>`)}</select></label>
		<label>Format<select name="format"><option>csv</option><option>ndjson</option></select></label></${Change}>`}>
		<${Listing} list=${list} label="Exports" columns=${columns} to=${(e) => linkTo(e.id)} empty=${html`There is no export. Make one: <code>tollgate export payments -o payments.csv</code>`} />
	</${Page}>`;
}
