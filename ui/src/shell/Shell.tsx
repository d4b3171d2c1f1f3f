import {
  Alert,
  Button,
  Dropdown,
  DropdownGroup,
  DropdownItem,
  DropdownList,
  Masthead,
  MastheadBrand,
  MastheadContent,
  MastheadMain,
  MastheadToggle,
  MenuToggle,
  Nav,
  NavItem,
  NavList,
  Page,
  PageSidebar,
  PageSidebarBody,
  PageToggleButton,
  SkipToContent,
  Toolbar,
  ToolbarContent,
  ToolbarGroup,
  ToolbarItem,
} from "@patternfly/react-core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Link, useLocation } from "react-router-dom";
import { call, get } from "../api/client";
import { useLink } from "../api/events";
import type { Info } from "../api/types";
import { useSession } from "../session/session";
import { Keyboard } from "./keyboard";
import { TaskDrawer } from "./TaskDrawer";
import { useTheme, type Theme } from "./theme";

/** What stands around every page: the bar, the menu, and the drawer of tasks at the bottom. */
export function Shell({ children }: { children: ReactNode }) {
  const { pathname } = useLocation();
  const [keys, setKeys] = useState(false);
  const link = useLink();
  const info = useQuery({ queryKey: ["info"], queryFn: () => get<Info>("/info"), staleTime: 300_000 });

  const masthead = (
    <Masthead>
      <MastheadMain>
        <MastheadToggle>
          <PageToggleButton isHamburgerButton aria-label="Menu" id="menu" />
        </MastheadToggle>
        <MastheadBrand>
          <Link to="/clusters" className="brand">
            <img src="/icon.svg" alt="" width="24" height="24" />
            Trilithon
          </Link>
          {info.data?.lab && <span className="brand-note">Simulated datacenter</span>}
        </MastheadBrand>
      </MastheadMain>
      <MastheadContent>
        <Toolbar isStatic>
          <ToolbarContent>
            <ToolbarGroup align={{ default: "alignEnd" }}>
              {info.data?.links.engine && (
                <ToolbarItem>
                  <Button variant="link" component="a" href={info.data.links.engine} target="_blank" rel="noreferrer">
                    Temporal UI
                  </Button>
                </ToolbarItem>
              )}
              <ToolbarItem>
                <Button variant="plain" aria-label="Keyboard help" onClick={() => setKeys(true)}>
                  ?
                </Button>
              </ToolbarItem>
              <ToolbarItem>
                <PersonMenu />
              </ToolbarItem>
            </ToolbarGroup>
          </ToolbarContent>
        </Toolbar>
      </MastheadContent>
    </Masthead>
  );

  const sidebar = (
    <PageSidebar>
      <PageSidebarBody>
        <Nav aria-label="Main">
          <NavList>
            <NavItem itemId="clusters" isActive={pathname.startsWith("/clusters")}>
              <Link to="/clusters">Clusters</Link>
            </NavItem>
            <NavItem itemId="jobs" isActive={pathname.startsWith("/jobs")}>
              <Link to="/jobs">Jobs</Link>
            </NavItem>
            <NavItem itemId="charts" isActive={pathname.startsWith("/charts")}>
              <Link to="/charts">Charts</Link>
            </NavItem>
          </NavList>
        </Nav>
      </PageSidebarBody>
    </PageSidebar>
  );

  return (
    <Page
      isManagedSidebar
      isContentFilled
      masthead={masthead}
      sidebar={sidebar}
      mainContainerId="main"
      skipToContent={<SkipToContent href="#main">Skip to content</SkipToContent>}
    >
      {link === "reconnecting" && (
        <div role="status" className="before">
          <Alert isInline variant="warning" title="Reconnecting… what you see may be out of date." />
        </div>
      )}
      <div className="work">{children}</div>
      <TaskDrawer />
      <Keyboard open={keys} setOpen={setKeys} />
    </Page>
  );
}

const THEMES: [Theme, string][] = [
  ["system", "Theme of the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];

function PersonMenu() {
  const session = useSession();
  const queries = useQueryClient();
  const [open, setOpen] = useState(false);
  const [theme, setTheme] = useTheme();
  return (
    <Dropdown
      isOpen={open}
      onOpenChange={setOpen}
      onSelect={() => setOpen(false)}
      popperProps={{ position: "end" }}
      toggle={(ref) => (
        <MenuToggle ref={ref} onClick={() => setOpen(!open)} isExpanded={open}>
          {session.user}
          {session.site ? ` · ${session.site}` : ""}
        </MenuToggle>
      )}
    >
      <DropdownGroup label="Theme">
        <DropdownList>
          {THEMES.map(([value, label]) => (
            <DropdownItem key={value} onClick={() => setTheme(value)} isSelected={theme === value}>
              {label}
            </DropdownItem>
          ))}
        </DropdownList>
      </DropdownGroup>
      <DropdownGroup label="Session">
        <DropdownList>
          <DropdownItem
            onClick={() => {
              void call("/session", { method: "DELETE" }).finally(() => {
                queries.clear();
                window.location.assign("/");
              });
            }}
          >
            Sign out
          </DropdownItem>
        </DropdownList>
      </DropdownGroup>
    </Dropdown>
  );
}
