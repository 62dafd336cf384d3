// The package where there is no Node: browsers and the like.

export { HandbackError, Http, type HttpOptions, type Token } from "./http.js";
export { readEvents, type ServerEvent } from "./sse.js";
