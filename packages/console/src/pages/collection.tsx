// What does a collection have: its pages, one a tab.

import { isQuiverError } from "@quiverdb/protocol/errors";
import type { ComponentChildren } from "preact";
import { pauseFor, readFacts, type TabProps } from "../facts.ts";
import { countOf } from "../parts/format.ts";
import { LoadFailure, useLoaded } from "../parts/loading.tsx";
import { hrefOf } from "../route.ts";
import { useClient } from "../session.ts";
import { Kinds } from "./collections.tsx";
import { MapPage } from "./map.tsx";
import { OverviewPage } from "./overview.tsx";
import { RecordsPage } from "./records.tsx";
import { SearchPage } from "./search.tsx";
import { TransactionsPage } from "./transactions.tsx";
import { VersionsPage } from "./versions.tsx";

const tabs: readonly (readonly [path: string, label: string])[] = [
  ["overview", "Overview"],
  ["search", "Search"],
  ["records", "Records"],
  ["map", "Map"],
  ["versions", "Versions"],
  ["transactions", "Transactions"],
];

/** @param query of the address: what a tab begins with */
export function CollectionPage({ name, tab, query }: { name: string; tab: string; query: URLSearchParams }) {
  const client = useClient();
  const facts = useLoaded(
    (signal) => readFacts(client, name, signal),
    [client, name],
    (value) => pauseFor(value === undefined ? [] : [value]),
  );
  const { value } = facts;
  if (isQuiverError(facts.error, "collection_not_found"))
    return (
      <>
        <h1>There is no collection {name}</h1>
        <p role="alert">
          It was deleted, or never made. <a href={hrefOf(["collections"])}>All collections</a>
        </p>
      </>
    );
  return (
    <>
      <div class="head">
        <h1>
          <span class="visually-hidden">Collection </span>
          {name}
        </h1>
        {value !== undefined && (
          <div>
            <Kinds detail={value.detail} />
            <span class="badge">{countOf(value.detail.vectors_count, "record")}</span>
            {!value.detail.loaded && <span class="badge">unloaded</span>}
          </div>
        )}
      </div>
      <nav class="tabs" aria-label="Collection">
        {tabs.map(([path, label]) => (
          <a
            key={path}
            href={hrefOf(["collections", name, path])}
            aria-current={tab === path ? "page" : undefined}
          >
            {label}
          </a>
        ))}
      </nav>
      <LoadFailure error={facts.error} />
      {value !== undefined && (
        <Tab name={name} tab={tab} query={query} facts={value} refresh={facts.refresh} />
      )}
    </>
  );
}

function Tab({ tab, ...props }: TabProps & { tab: string }): ComponentChildren {
  switch (tab) {
    case "overview":
      return <OverviewPage {...props} />;
    case "search":
      return <SearchPage {...props} />;
    case "records":
      return <RecordsPage {...props} />;
    case "map":
      return <MapPage {...props} />;
    case "versions":
      return <VersionsPage {...props} />;
    case "transactions":
      return <TransactionsPage {...props} />;
    default:
      return <p>A collection has no such page.</p>;
  }
}
