// Perimeters: what may be paid, and what is left of it.
import { html, Id, Listing, Page, useList } from "../parts.js";
import { linkTo } from "../links.js";
import { Gauge } from "./perimeter.js";

const columns = [
	{ name: "Perimeter", cell: (p) => html`<span class="mono">${p.id}</span>` },
	{ name: "Version", number: true, cell: (p) => p.version },
	{ name: "Accounts", cell: (p) => html`${p.merchant_accounts.map((a, i) => html`${i > 0 && ", "}<${Id} of=${a.id} key=${a.id} />`)}` },
	{ name: "Limits", cell: (p) => (p.usage.length ? html`${p.usage.map((u, i) => html`<${Gauge} of=${u} key=${i} />`)}` : html`<span class="soft">no budget</span>`) },
];

export default function Perimeters() {
	const list = useList("/v1/perimeters", {});
	return html`<${Page} title="Perimeters" sub="Whom an account may pay, and how much.">
		<${Listing} list=${list} label="Perimeters" columns=${columns} to=${(p) => linkTo(p.id)} empty="Your grant reaches no perimeter." />
	</${Page}>`;
}
