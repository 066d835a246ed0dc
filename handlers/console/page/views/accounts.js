// The merchant accounts that the client's grant covers.
import { html, Id, Listing, Page, State, useList } from "../parts.js";
import { linkTo } from "../links.js";

const columns = [
	{ name: "Account", cell: (a) => html`<span class="text">${a.name}</span>` },
	{ name: "Status", cell: (a) => html`<${State} is=${a.status} />` },
	{ name: "Currency", cell: (a) => a.default_currency },
	{ name: "Cutoff", cell: (a) => `${a.cutoff.cutoff_time} ${a.cutoff.time_zone}` },
	{ name: "Rules", cell: (a) => html`${a.rule_set.rules.map((r, i) => html`${i > 0 && ", "}<${Id} of=${r} key=${r} />`)}` },
	{ name: "Perimeter", cell: (a) => html`<${Id} of=${a.perimeter.id} />` },
];

export default function Accounts() {
	const list = useList("/v1/merchant-accounts", {});
	return html`<${Page} title="Accounts" sub="The merchant accounts that your grant covers.">
		<${Listing} list=${list} label="Merchant accounts" columns=${columns} to=${(a) => linkTo(a.id)} empty="Your grant covers no account." />
	</${Page}>`;
}
