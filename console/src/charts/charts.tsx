export function Charts() {
  return (
    <div class="page">
      <h1>Charts</h1>
    </div>
  );
}
