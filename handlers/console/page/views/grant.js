// A grant, as the API has it.
import { Json } from "../parts.js";
import { get, html, Loaded, Page, useLoad } from "../object.js";

export default function Grant({ id }) {
	const found = useLoad(() => get(`/v1/grants/${id}`), [id]);
	return html`<${Page} title="Grant" sub=${html`<span class="mono">${id}</span>`}><${Loaded} of=${found}>${(o) => html`<${Json} of=${o} />`}</${Loaded}></${Page}>`;
}
