// What a version would have changed: past tickets priced again with it, by the
// console's own process, as `tollgate rule backtest` does.
import { useState } from "preact/hooks";
import { calculate, now } from "../api.js";
import { Card, Fault, Fragment, html, Id, Money, Table } from "../parts.js";

const days = [1, 7, 30, 90];

// Split is how many pay more, the same and less, as a bar.
function Split({ of: g }) {
	const parts = [["more", g.dearer], ["the same", g.same], ["less", g.cheaper], ["no price", g.unpriced]];
	const words = parts.filter(([, n]) => n > 0).map(([name, n]) => `${n} ${name}`).join(", ");
	let drawn = 0;
	return html`<span class="timing"><svg width="140" height="10" viewBox=${`0 0 ${g.count || 1} 10`} preserveAspectRatio="none" role="img" aria-label=${words}>${parts.map(([name, n]) => {
		drawn += n;
		return html`<rect key=${name} x=${drawn - n} width=${n} height="10" class=${`split-${name.replace(" ", "-")}`} />`;
	})}</svg> ${words}</span>`;
}

const columns = [
	{ name: "Account", cell: (g) => html`<${Id} of=${g.merchant_account_id} />` },
	{ name: "What", cell: (g) => g.kind },
	{ name: "Pay", cell: (g) => html`<${Split} of=${g} />` },
	{ name: "Fees before", number: true, cell: (g) => html`<${Money} amount=${g.before} currency=${g.currency} />` },
	{ name: "After", number: true, cell: (g) => html`<${Money} amount=${g.after} />` },
	{ name: "Difference", number: true, cell: (g) => html`<strong><${Money} amount=${g.difference} /></strong>` },
];

function Largest({ groups }) {
	const rows = groups.flatMap((g) => g.largest.map((c) => ({ ...c, id: `${c.ticket_id} ${c.evaluation}`, currency: g.currency, kind: g.kind })));
	return rows.length > 0 && html`<h3>The largest differences</h3><${Table} label="The largest differences" empty="" rows=${rows} columns=${[
		{ name: "Payment", cell: (c) => html`<${Id} of=${c.ticket_id} />` },
		{ name: "What", cell: (c) => `${c.kind} ${c.evaluation}` },
		{ name: "Amount", number: true, cell: (c) => html`<${Money} amount=${c.amount} currency=${c.currency} />` },
		{ name: "Fees before", number: true, cell: (c) => html`<${Money} amount=${c.before} />` },
		{ name: "After", number: true, cell: (c) => (c.outcome ? html`<span class="text">${c.outcome}</span>` : html`<${Money} amount=${c.after} />`) },
	]} />`;
}

export function Backtest({ rule, list }) {
	const others = list.filter((r) => r.rule !== rule.rule);
	const siblings = others.filter((r) => r.rule.split("@")[0] === rule.rule.split("@")[0]);
	const inForce = (r) => r.merchant_account_ids?.length > 0;
	const sibling = siblings.find(inForce) || siblings[0] || others.find(inForce) || others[0];
	const [replaces, setReplaces] = useState(sibling?.rule || "");
	const [back, setBack] = useState(30);
	const [state, setState] = useState({});
	const run = async (event) => {
		event.preventDefault();
		setState({ busy: true });
		try {
			setState({ result: await calculate("/backtest", { rule: rule.rule, replaces, created_after: new Date(now() - back * 86400000).toISOString() }) });
		} catch (problem) {
			setState({ problem });
		}
	};
	const { result, problem, busy } = state;
	return html`<${Card} title="What it would have changed">
		<form class="filters" onSubmit=${run}>
			<label>In the place of<select value=${replaces} onChange=${(e) => setReplaces(e.target.value)}>${others.map((r) => html`<option value=${r.rule} selected=${r.rule === replaces}>${r.rule}</option>`)}</select></label>
			<label>In the last<select value=${back} onChange=${(e) => setBack(Number(e.target.value))}>${days.map((d) => html`<option value=${d} selected=${d === back}>${d === 1 ? "day" : `${d} days`}</option>`)}</select></label>
			<button disabled=${busy || !replaces}>${busy ? "Pricing tickets again…" : "Price tickets again"}</button>
		</form>
		<${Fault} problem=${problem} />
		${result && html`<${Fragment}>
			<p role="status">${result.tickets} tickets, ${result.affected} of ${result.evaluations} evaluations cite ${replaces}.${result.broken > 0 && html` <span class="bad">${result.broken} do not give their own lines again.</span>`}${result.not_run > 0 && ` ${result.not_run} could not run: their modules are not here.`}</p>
			<${Table} label="Fees before and after" columns=${columns} rows=${result.groups.map((g) => ({ ...g, id: `${g.merchant_account_id} ${g.currency} ${g.kind}` }))} empty="There is nothing to compare." />
			<${Largest} groups=${result.groups} />
		</${Fragment}>`}
		<p class="soft">Nothing is written and nobody is charged. The console reads the tickets and prices them itself.</p>
	</${Card}>`;
}
