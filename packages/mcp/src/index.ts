// What does a program get that serves the tools itself?

export { type HttpOptions, type HttpServer, serveHttp } from "./http.ts";
export { createMcpServer, type QuiverMcpOptions } from "./server.ts";
