// An event, as it was frozen.
import { Card, Json } from "../parts.js";
import { Facts, get, html, Id, Loaded, Page, Time, useLoad } from "../object.js";

export default function Event({ id }) {
	const event = useLoad(() => get(`/v1/events/${id}`), [id]);
	return html`<${Page} title=${event.data?.type || "Event"} sub=${html`<span class="mono">${id}</span>`}><${Loaded} of=${event}>${(e) => html`
		<${Facts} rows=${[
			["At", html`<${Time} at=${e.created_at} />`],
			["Number", e.sequence],
			["Account", e.merchant_account_id && html`<${Id} of=${e.merchant_account_id} />`],
			["Made by request", e.request_id && html`<span class="mono">${e.request_id}</span>`],
			...Object.entries(e.data).filter(([name]) => name.endsWith("_id") && name !== "merchant_account_id").map(([name, value]) => [name.replace(/_id$/, "").replaceAll("_", " "), html`<${Id} of=${value} />`]),
		]} />
		<${Card} title="As it is delivered"><${Json} of=${e} /></${Card}>`}</${Loaded}></${Page}>`;
}
