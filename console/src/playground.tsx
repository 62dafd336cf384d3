export function Playground() {
  return (
    <div class="page">
      <h1>Playground</h1>
      <p>
        Calls are followed in <a href="#/live">Live</a>, and counted in <a href="#/charts">Charts</a>.
      </p>
    </div>
  );
}
