// Which transactions are there, and how far is each?

import type { TransactionState, TransactionStats } from "@quiverdb/protocol/shapes/transaction";
import { useState } from "preact/hooks";
import type { TabProps } from "../facts.ts";
import { Dialog } from "../parts/dialog.tsx";
import { count, countOf, dateTime } from "../parts/format.ts";
import { Show, useLoaded } from "../parts/loading.tsx";
import { Progress } from "../parts/progress.tsx";
import { Table } from "../parts/table.tsx";
import { useClient } from "../session.ts";

type Known = {
  readonly label: string;
  readonly color: string;
  readonly stats: TransactionStats;
  /** Its operations are, or become, a version. */
  readonly isCommitted: boolean;
  /** It can be committed or aborted. */
  readonly isOpen: boolean;
  readonly isIndexing: boolean;
  readonly message?: string;
};

function known(state: TransactionState): Known {
  const none = { isOpen: false, isIndexing: false, isCommitted: false };
  if ("NotStarted" in state)
    return { ...none, label: "open", color: "warn", stats: state.NotStarted.stats, isOpen: true };
  if ("InProgress" in state)
    return {
      ...none,
      label: "indexing",
      color: "warn",
      stats: state.InProgress.stats,
      isIndexing: true,
      isCommitted: true,
    };
  if ("Complete" in state)
    return { ...none, label: "complete", color: "good", stats: state.Complete.stats, isCommitted: true };
  if ("Aborted" in state) return { ...none, label: "aborted", color: "", stats: state.Aborted.stats };
  return { ...none, label: "failed", color: "bad", stats: state.Failed.stats, message: state.Failed.message };
}

export function TransactionsPage({ name }: TabProps) {
  const collection = useClient().collection(name);
  const [ending, setEnding] = useState<{ readonly id: string; readonly way: "commit" | "abort" }>();
  const loaded = useLoaded(
    async (signal) => {
      const transactions = await collection.transactions({ signal });
      return transactions.map(({ status, ...transaction }) => ({ ...transaction, ...known(status) }));
    },
    [name],
    (value) => (value?.some(({ isOpen, isIndexing }) => isOpen || isIndexing) ? 700 : 3_000),
  );
  const end = async () => {
    if (ending === undefined) return;
    const transaction = collection.resumeTransaction(ending.id);
    await (ending.way === "commit" ? transaction.commit() : transaction.abort());
    loaded.refresh();
  };
  return (
    <>
      <Show of={loaded}>
        {(transactions) =>
          transactions.length === 0 ? (
            <p class="card empty">There have been no transactions.</p>
          ) : (
            <div class="card">
              <Table
                columns={[
                  "Transaction",
                  "State",
                  "Indexed",
                  { number: "Upserts" },
                  { number: "Deletes" },
                  { number: "Version" },
                ]}
                hasActions
              >
                {transactions.map(
                  ({ transaction_id: id, created_at, label, color, stats, isOpen, isCommitted, message }) => (
                    <tr key={id}>
                      <td class="wide">
                        <code>{id}</code>
                        <div class="muted small">{dateTime(created_at)}</div>
                      </td>
                      <td>
                        <span class={`badge ${color}`}>{label}</span>
                        {message !== undefined && <div class="small">{message}</div>}
                      </td>
                      <td>
                        {isCommitted ? (
                          <Progress
                            percent={stats.percentage_complete}
                            label={`Indexing of transaction ${id}`}
                          />
                        ) : (
                          <span class="muted small">not committed</span>
                        )}
                        {stats.average_throughput > 0 && (
                          <div class="muted small">
                            {countOf(Math.round(stats.average_throughput), "operation")}/s
                          </div>
                        )}
                      </td>
                      <td class="number">{count(stats.records_upserted)}</td>
                      <td class="number">{count(stats.records_deleted)}</td>
                      <td class="number">{stats.version_created !== null && count(stats.version_created)}</td>
                      <td>
                        {isOpen && (
                          <div class="buttons">
                            <button
                              type="button"
                              class="small"
                              onClick={() => setEnding({ id, way: "commit" })}
                            >
                              Commit
                            </button>
                            <button
                              type="button"
                              class="small"
                              onClick={() => setEnding({ id, way: "abort" })}
                            >
                              Abort
                            </button>
                          </div>
                        )}
                      </td>
                    </tr>
                  ),
                )}
              </Table>
            </div>
          )
        }
      </Show>
      {ending !== undefined && (
        <Dialog
          title={`${ending.way === "commit" ? "Commit" : "Abort"} the transaction`}
          submitLabel={ending.way === "commit" ? "Commit" : "Abort"}
          isDangerous={ending.way === "abort"}
          submit={end}
          close={() => setEnding(undefined)}
        >
          <p>
            {ending.way === "commit"
              ? "All its operations become one version, which every later search sees."
              : "Its operations are dropped."}{" "}
            The program that opened it may still be writing.
          </p>
        </Dialog>
      )}
    </>
  );
}
