// How does a command tell a script what happened?

export const exitCodes = {
  ok: 0,
  /** Failed: the server rejected the request, a file cannot be read, ... */
  failed: 1,
  /** The command line, the environment or the configuration file is wrong; nothing was done. */
  usage: 2,
  /** The work is done, but some lines were rejected. */
  rejected: 3,
  /** Ended by Ctrl-C or SIGTERM. */
  interrupted: 130,
} as const;

export const exitCodesHelp = `
Exit codes:
  0    done
  1    failed: the server rejected a request or did not respond, a file cannot be read, ...
  2    wrong usage: an unknown option, an invalid value; nothing was done
  3    done, but some lines of the input were rejected (import)
  130  interrupted by Ctrl-C or SIGTERM`;

/** Wrong usage: reported without a stack trace, with exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** A failure with a complete message: reported without a stack trace, with exit code 1. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}
