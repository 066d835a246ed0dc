// The rules: what is in force, what there is, who put it there.
import { all, get } from "../api.js";
import { Card, html, Id, Link, Listing, Loaded, Page, State, Table, Time, useList, useLoad } from "../parts.js";
import { linkTo } from "../links.js";
import { size } from "../format.js";

const known = [
	{ name: "Rule", cell: (r) => html`<span class="mono">${r.rule}</span>` },
	{ name: "Label", cell: (r) => html`<span class="text">${r.label}</span>` },
	{ name: "In force for", cell: (r) => (r.merchant_account_ids?.length ? html`${r.merchant_account_ids.map((id, i) => html`${i > 0 && ", "}<${Id} of=${id} key=${id} />`)}` : html`<span class="soft">no account</span>`) },
	{ name: "From", cell: (r) => (r.builtin ? "Tollgate" : "published") },
	{ name: "Size", number: true, cell: (r) => size(r.bytes) },
];

const activations = [
	{ name: "At", cell: (a) => html`<${Time} at=${a.at} />` },
	{ name: "Rule", cell: (a) => html`<${Id} of=${a.rule} />` },
	{ name: "Instead of", cell: (a) => html`<${Id} of=${a.replaces} />` },
	{ name: "State", cell: (a) => html`<${State} is=${a.status} />` },
];

function RuleSet({ id }) {
	const list = useList(`/v1/rule-sets/${id}/activations`, {}, 10);
	return html`<${Card} title=${`Rule set ${id}`} id=${`h-${id}`} aside=${html`<${Link} to=${linkTo(id)}>History and roll-back</${Link}>`}>
		<${Listing} list=${list} label=${`Activations of ${id}`} columns=${activations} empty="Nothing was activated since the organization was provisioned." />
	</${Card}>`;
}

export default function Rules() {
	const rules = useLoad(() => get("/rules"), []);
	const sets = useLoad(async () => [...new Set((await all("/v1/merchant-accounts")).map((a) => a.rule_set.id))], []);
	const shadows = useList("/v1/shadows", {}, 20);
	return html`<${Page} title="Rules" sub="Every version that a payment can cite. A version never changes.">
		<${Card} title="Versions"><${Loaded} of=${rules}>${(list) => html`<${Table} label="Rules" columns=${known} rows=${list.map((r) => ({ ...r, id: r.rule }))} to=${(r) => linkTo(r.rule)} empty="No rule." />`}</${Loaded}></${Card}>
		<${Loaded} of=${sets}>${(ids) => ids.map((id) => html`<${RuleSet} id=${id} key=${id} />`)}</${Loaded}>
		<${Card} title="Shadows"><p class="soft">A shadow prices each payment with another version too, and keeps where the two differ. Nobody pays its prices.</p>
			<${Listing} list=${shadows} label="Shadows" to=${(s) => linkTo(s.id)} empty="No shadow runs. Start one: tollgate rule shadow" columns=${[
				{ name: "Started", cell: (s) => html`<${Time} at=${s.created_at} />` },
				{ name: "Rule", cell: (s) => html`<${Id} of=${s.rule.rule} />` },
				{ name: "Against", cell: (s) => html`<${Id} of=${s.against} />` },
				{ name: "State", cell: (s) => html`<${State} is=${s.status} />` },
			]} /></${Card}>
	</${Page}>`;
}
