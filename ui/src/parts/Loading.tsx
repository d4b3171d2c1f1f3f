/** Said only to those who cannot see that a page is on its way; most pages come faster than a spinner would. */
export function Loading() {
  return (
    <p className="loading" role="status">
      Loading…
    </p>
  );
}
