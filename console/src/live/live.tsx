export function Live() {
  return (
    <div class="page">
      <h1>Live</h1>
    </div>
  );
}
