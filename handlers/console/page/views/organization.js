// An organization, as the API has it.
import { Json } from "../parts.js";
import { get, html, Loaded, Page, useLoad } from "../object.js";

export default function Organization({ id }) {
	const found = useLoad(() => get(`/v1/organizations/${id}`), [id]);
	return html`<${Page} title="Organization" sub=${html`<span class="mono">${id}</span>`}><${Loaded} of=${found}>${(o) => html`<${Json} of=${o} />`}</${Loaded}></${Page}>`;
}
