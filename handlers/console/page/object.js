// What the pages of single objects import.
export { get } from "./api.js";
export { Facts, html, Id, Loaded, Money, Page, State, Time, useLoad } from "./parts.js";
