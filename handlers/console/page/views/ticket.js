// The ticket of a payment. Each evaluation runs again in the browser, with the
// modules that it cites.
import { Card, html, Id, Money, Table, Time, useLoad } from "../parts.js";
import { linkTo } from "../links.js";
import { again } from "../pricing.js";

// Check says whether the browser gets the same lines.
export function Check({ evaluation }) {
	const run = useLoad(() => again(evaluation), [evaluation.lines_sha256, evaluation.number]);
	if (run.problem) return html`<span class="check bad">Not run: ${run.problem.message}</span>`;
	if (!run.data) return html`<span class="check soft">Running the rules here…</span>`;
	return run.data.equal
		? html`<span class="check good" title=${`SHA-256 of the lines: ${run.data.digest}`}>✓ Your browser gets the same</span>`
		: html`<span class="check bad" title=${`Here: ${run.data.digest}`}>✗ Your browser gets other lines</span>`;
}

// whyOf is the page that explains a line.
export function whyOf(ticket, line) {
	return `${linkTo(line.rule)}?ticket=${ticket.id}&evaluation=${line.evaluation}`;
}

const kinds = { authorization: "When it was made", review: "When it waited for a review", capture: "Capture", refund: "Refund" };

export function Ticket({ ticket }) {
	const columns = [
		{ name: "Fee", cell: (l) => html`<span class="text">${l.label}</span>` },
		{ name: "Amount", number: true, cell: (l) => html`<${Money} amount=${l.amount} currency=${ticket.currency} />` },
		{ name: "Rule", cell: (l) => html`<${Id} of=${l.rule} />` },
		{ name: "Evaluation", number: true, cell: (l) => l.evaluation },
	];
	return html`<${Card} title="Ticket" aside=${html`<strong><${Money} amount=${ticket.total} currency=${ticket.currency} /></strong>`}>
		<${Table} label="Fee lines" columns=${columns} rows=${ticket.lines} to=${(l) => whyOf(ticket, l)} empty="No fee was charged." />
		<p class="soft">Choose a fee to see why it is what it is.</p>
		<ol class="evaluations">${ticket.evaluations.map((e) => html`<li key=${e.number}>
			<div><strong>${e.number}. ${kinds[e.kind] || e.kind}</strong> <${Money} amount=${e.input.amount} currency=${e.input.currency} /> <span class="soft"><${Time} at=${e.at} /></span></div>
			<div><${Check} evaluation=${e} /></div>
			<details><summary>Input and rules</summary>
				<p class="soft">Payee <span class="mono text">${e.input.payee}</span>, capture ${e.input.capture_index}. Lines <span class="mono digest">${e.lines_sha256}</span></p>
				<ul>${e.rules.map((r) => html`<li key=${r.rule}><${Id} of=${r.rule} /> <span class="mono digest soft">${r.sha256}</span></li>`)}</ul>
			</details>
		</li>`)}</ol>
	</${Card}>`;
}
