// Which certificate does the server use, and what happens when its file changes?
//
// Both files are read at startup, and an unusable pair prevents the start. After that their contents are compared every few seconds, which
// detects every way of replacing them: overwriting, renaming into place, or a changed link. New connections get the new pair; open ones
// keep the old one. An unusable pair (often one file is replaced a moment before the other) changes nothing, is logged once, and is checked
// again when a file changes.

import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { Server } from "node:https";
import { limits } from "@quiverdb/protocol/limits";
import type { Logger } from "pino";
import { ConfigError } from "./config.ts";

/** Paths of PEM files: the certificate with its chain, and its private key. */
export type CertificateFiles = { readonly cert: string; readonly key: string };

/** The verified contents of both files. */
export type Certificate = { readonly cert: string; readonly key: string };

/** @throws ConfigError that names the file and what is wrong with it */
export function readCertificate(files: CertificateFiles): Certificate {
  const pair = { cert: textOf("tlsCert", files.cert), key: textOf("tlsKey", files.key) };
  checkCertificate(files, pair);
  return pair;

  function textOf(option: "tlsCert" | "tlsKey", path: string): string {
    try {
      return readFileSync(path, "utf8");
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? "unknown error";
      throw new ConfigError(option, `${option} ${path} cannot be read (${code}); give a PEM file.`);
    }
  }
}

/** @throws ConfigError */
function checkCertificate(files: CertificateFiles, { cert, key }: Certificate): void {
  const certificate = parsed("tlsCert", files.cert, "certificate", () => new X509Certificate(cert));
  const privateKey = parsed("tlsKey", files.key, "private key without a passphrase", () =>
    createPrivateKey(key),
  );
  if (certificate.checkPrivateKey(privateKey)) return;
  throw new ConfigError(
    "tlsKey",
    `tlsKey ${files.key} is not the key of the certificate in ${files.cert}; give a matching pair.`,
  );
}

/** The library's message is omitted: it could contain parts of the file. */
function parsed<T>(option: "tlsCert" | "tlsKey", path: string, what: string, parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new ConfigError(option, `${option} ${path} is not a ${what} in PEM format.`);
  }
}

/**
 * Passes a changed certificate to the server until the server stops.
 * @param first the pair at startup
 */
export function followCertificate(
  server: Server,
  files: CertificateFiles,
  first: Certificate,
  logger: Logger,
  clock: () => number,
  lookMs: number = limits.tlsLookMs,
): void {
  warnOfDates(first, logger, clock());
  let seen = first;
  let isReadable = true;
  const timer = setTimeout(look, lookMs);
  timer.unref();
  server.once("close", () => clearTimeout(timer));

  async function look(): Promise<void> {
    try {
      await compare();
    } finally {
      if (server.listening) timer.refresh();
    }
  }

  async function compare(): Promise<void> {
    let found: Certificate;
    try {
      found = { cert: await readFile(files.cert, "utf8"), key: await readFile(files.key, "utf8") };
      isReadable = true;
    } catch (err) {
      if (isReadable) logger.error({ err }, "the certificate cannot be read any more; the old one is kept");
      isReadable = false;
      return;
    }
    if (found.cert === seen.cert && found.key === seen.key) return;
    seen = found;
    try {
      checkCertificate(files, found);
      server.setSecureContext(found);
    } catch (err) {
      logger.error({ err }, "the new certificate cannot be used; the old one is kept");
      return;
    }
    logger.info({ until: new X509Certificate(found.cert).validTo }, "a new certificate is in use");
    warnOfDates(found, logger, clock());
  }
}

function warnOfDates({ cert }: Certificate, logger: Logger, now: number): void {
  const { validFromDate, validToDate } = new X509Certificate(cert);
  if (validFromDate.getTime() <= now && now < validToDate.getTime()) return;
  logger.warn(
    { from: validFromDate, until: validToDate },
    "the certificate is not valid today; clients refuse it",
  );
}
