// A merchant account.
import { Card, Json } from "../parts.js";
import { Facts, get, html, Id, Loaded, Page, State, useLoad } from "../object.js";

export default function Account({ id }) {
	const account = useLoad(() => get(`/v1/merchant-accounts/${id}`), [id]);
	return html`<${Page} title=${account.data?.name || "Account"} sub=${html`<span class="mono">${id}</span>`}><${Loaded} of=${account}>${(a) => html`
		<${Facts} rows=${[
			["Status", html`<${State} is=${a.status} />`],
			["Organization", html`<${Id} of=${a.organization_id} />`],
			["Perimeter", html`<${Id} of=${a.perimeter.id} />, version ${a.perimeter.version}`],
			["Rule set", html`<${Id} of=${a.rule_set.id} />, version ${a.rule_set.version}`],
			["Rules", html`${a.rule_set.rules.map((r, i) => html`${i > 0 && ", "}<${Id} of=${r} key=${r} />`)}`],
			["Sales day ends", `${a.cutoff.cutoff_time} ${a.cutoff.time_zone}`],
			["Paid", `${a.cutoff.settlement_delay_days} days later, ${a.cutoff.interval}`],
			["Currencies", a.currencies.join(", ")],
			["Capture window", `${a.capture_window_hours} h`],
			a.silent_rules.length > 0 && ["Charge nothing", html`${a.silent_rules.map((s) => html`<div key=${s.rule}><${Id} of=${s.rule} />: ${s.currencies.join(", ")}</div>`)}`],
		]} />
		<${Card} title="As the API has it"><${Json} of=${a} /></${Card}>`}</${Loaded}></${Page}>`;
}
