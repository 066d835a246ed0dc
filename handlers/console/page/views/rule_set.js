// A rule set: what was activated in it, by whom, and the way back.
import { useEffect } from "preact/hooks";
import { write, get, all } from "../api.js";
import { Card, Change, html, Id, Listing, Loaded, Page, State, Table, Time, Money, useList, useLoad } from "../parts.js";

const columns = [
	{ name: "At", cell: (a) => html`<${Time} at=${a.at} />` },
	{ name: "What", cell: (a) => (a.kind === "rollback" ? "roll-back" : "activation") },
	{ name: "Rule", cell: (a) => html`<${Id} of=${a.rule} />` },
	{ name: "Instead of", cell: (a) => html`<${Id} of=${a.replaces} />` },
	{ name: "Set", number: true, cell: (a) => `${a.from_version} → ${a.to_version}` },
	{ name: "State", cell: (a) => html`<${State} is=${a.status} />` },
	{ name: "Instances", cell: (a) => a.instances && `${a.instances.ready} of ${a.instances.total} ready` },
];

const samples = [
	{ name: "Amount", number: true, cell: (s) => html`<${Money} amount=${s.amount} currency=${s.currency} />` },
	{ name: "Before", number: true, cell: (s) => (s.before.error ? s.before.error.code : html`<${Money} amount=${s.before.total} />`) },
	{ name: "After", number: true, cell: (s) => (s.after.error ? s.after.error.code : html`<${Money} amount=${s.after.total} />`) },
];

// Comparison is what sample amounts are charged before and after.
export function Comparison({ of }) {
	const differ = of.samples.filter((s) => s.before.total !== s.after.total);
	return html`<p>${differ.length ? `${differ.length} of ${of.samples.length} sample amounts would be charged something else:` : `All ${of.samples.length} sample amounts are charged the same.`}</p>
		${differ.length > 0 && html`<${Table} label="Fees before and after" columns=${samples} rows=${differ.slice(0, 40)} empty="" />`}`;
}

function Activate({ id, session, rules, done }) {
	const path = `/v1/rule-sets/${id}/activations`;
	const body = (form) => ({ rule: form.rule, ...(form.replaces ? { replaces: form.replaces } : { adds: true }) });
	const look = async (form) => {
		const would = await write("POST", path, { ...body(form), dry_run: true });
		return html`<p>For ${would.merchant_account_ids.length} ${would.merchant_account_ids.length === 1 ? "account" : "accounts"}. New payments are priced by ${would.rules.map((r) => r.rule).join(", ")}.</p><${Comparison} of=${would.comparison} />`;
	};
	return html`<${Change} session=${session} name="Activate" title="Activate a rule" done=${done} look=${look} send=${(form, key) => write("POST", path, body(form), key)}>
		<label>Rule<select name="rule">${rules.map((r) => html`<option>${r.rule}</option>`)}</select></label>
		<label>Instead of<select name="replaces"><option value="">nothing: it charges beside the others</option>${rules.filter((r) => r.merchant_account_ids?.length).map((r) => html`<option>${r.rule}</option>`)}</select></label>
	</${Change}>`;
}

export default function RuleSet({ id, session }) {
	const list = useList(`/v1/rule-sets/${id}/activations`, {});
	const accounts = useLoad(async () => (await all("/v1/merchant-accounts")).filter((a) => a.rule_set.id === id), [id]);
	const rules = useLoad(() => get("/rules"), []);
	const done = () => { list.reload(); accounts.reload(); };
	const under = list.rows.some((a) => a.status === "scheduled" && new Date(a.at) - new Date(a.created_at) < 60000);
	useEffect(() => {
		if (!under || list.loading || list.problem) return undefined;
		const timer = setTimeout(done, 700); // instances get ready one after the other
		return () => clearTimeout(timer);
	}, [under, list.loading, list.problem]);
	return html`<${Page} title="Rule set" sub=${html`<span class="mono">${id}</span>`} actions=${html`
		${rules.data && html`<${Activate} id=${id} session=${session} rules=${rules.data} done=${done} />`}
		<${Change} session=${session} name="Roll back" danger title="Take back the latest activation" done=${done} send=${(_, key) => write("POST", `/v1/rule-sets/${id}/rollback`, {}, key)}>
			<p>The version before comes into force for new payments. Payments that were made keep the rules that they were made with.</p></${Change}>`}>
		<${Card} title="In force"><${Loaded} of=${accounts}>${(found) => html`<${Table} label="Accounts" rows=${found} empty="No account of your grant uses this rule set." columns=${[
			{ name: "Account", cell: (a) => html`<${Id} of=${a.id} text=${a.name} />` },
			{ name: "Version", number: true, cell: (a) => a.rule_set.version },
			{ name: "Rules, in order", cell: (a) => html`${a.rule_set.rules.map((r, i) => html`${i > 0 && ", "}<${Id} of=${r} key=${r} />`)}` },
		]} />`}</${Loaded}></${Card}>
		<${Card} title="Activations"><${Listing} list=${list} label="Activations" columns=${columns} empty="Nothing was activated since the organization was provisioned." /></${Card}>
		${list.rows.find((a) => a.comparison) && html`<${Card} title="What the latest one changed"><${Comparison} of=${list.rows.find((a) => a.comparison).comparison} /></${Card}>`}
	</${Page}>`;
}
