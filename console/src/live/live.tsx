import { AsksCard } from "./asks";
import { CallsCard } from "./calls";
import { ClientsCard } from "./clients";

/** What clients and calls do now. */
export function Live() {
  return (
    <div class="page">
      <div class="page-head">
        <h1>Live</h1>
      </div>
      <div class="live">
        <div class="live-main">
          <AsksCard />
          <CallsCard />
        </div>
        <div class="live-side">
          <ClientsCard />
        </div>
      </div>
    </div>
  );
}
