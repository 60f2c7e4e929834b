// What do the owner and a serving thread tell each other, besides what concerns the database (engine/database/threads/messages.ts)?
//
//   thread -> owner   enter     who is this caller?
//                     log       lines for the log
//                     ready     it can listen
//   owner -> thread   listen    take connections
//                     forget    a key that was revoked
//                     aliases   other names of collections
//                     metrics   what was counted
//                     lastHour  the same for the last hour
//                     shed      close a share of the connections, for another thread
//                     stop      answer what has arrived, then end

import type { AddressInfo } from "node:net";
import type { CompleteServerConfig } from "../config.ts";
import type { OwnerSocket } from "./forwarding.ts";
import type { SharedCountsMemory } from "./shared-counts.ts";

/** What a thread is started with. */
export type ThreadStart = {
  /** From 1. */
  readonly slot: number;
  readonly config: Omit<CompleteServerConfig, "clock" | "logger" | "adminKey" | "idleCores">;
  readonly socket: OwnerSocket;
  readonly counts: SharedCountsMemory;
  readonly aliases: ReadonlyMap<string, string>;
};

export type ListenCall = { readonly host: string; readonly port: number; readonly backlog: number };
export type ListenAnswer = AddressInfo;
export type AliasesCall = { readonly aliases: ReadonlyMap<string, string> };
export type ForgetCall = { readonly who: string };
/** @property share of the open connections, 0 to 1 */
export type ShedCall = { readonly share: number };
export type LogCall = { readonly lines: string };
