// How far is something?

export function Progress({ percent, label }: { percent: number; label: string }) {
  return (
    <span class="progress">
      <progress max={100} value={percent} aria-label={label} />
      <span class="number">{percent >= 100 ? "100" : percent.toFixed(1)} %</span>
    </span>
  );
}
